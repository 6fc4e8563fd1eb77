package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies"
)

func TestRehearse(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, strategy := range strategies.All() {
			c := config(t, s, spec(t, strategy.Name))
			c.Mix, c.Wallets, c.Funds = Mix{5, 5}, 2, 0
			if err := Rehearse(t.Context(), c); err != nil {
				t.Error(err)
			}
			gone(t, s, c.Keys)
		}
	})
}

// as is c, dialled by a user who may do everything but run one command.
func (c Config) as(t *testing.T, s *backend.Server, without string) Config {
	t.Helper()
	conn := backendtest.Dial(t, s)
	defer conn.Close()
	if err := conn.Do(t.Context(), "ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*", "&*", "+@all", "-"+without).Err(); err != nil {
		t.Fatal(err)
	}
	target := s.Target
	target.Username, target.Password = "limited", "pw"
	c.Dial = func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, target) }
	return c
}

// TestRehearseDenied: whichever command is missing, the rehearsal names it at once and leaves nothing behind.
func TestRehearseDenied(t *testing.T) {
	s := backendtest.Local(t)
	always := []string{"exists", "unlink", "hgetall", "hsetnx", "hset", "hincrby", "sadd", "zrandmember", "zscore", "hget",
		"sismember", "sscan", "zscan", "zadd", "srem", "zrem"}
	for strategy, more := range map[string][]string{
		"watch":       {"watch", "multi", "exec", "unwatch"},
		"fine-wallet": {"setnx", "watch", "get", "del"},
		"unsafe":      nil,
	} {
		for _, command := range append(more, always...) {
			if strategy == "unsafe" && command == "hincrby" {
				continue // minting only, as in the others
			}
			c := config(t, s, spec(t, strategy)).as(t, s, command)
			start := time.Now()
			err := Rehearse(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "'"+command+"' command") {
				t.Errorf("%s without %s: %v", strategy, command, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s without %s: found after %s", strategy, command, took)
			}
			gone(t, s, c.Keys)
		}
	}
}

// TestRehearseInterrupted: the user may stop a rehearsal, too, and nothing is left.
func TestRehearseInterrupted(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config(t, s, onPurchase(t, "watch", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
			cancel()
			return next.Purchase(ctx, o)
		}))
		if err := Rehearse(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		gone(t, s, c.Keys)
	})
}

// TestRehearseOthersMarket: a market that somebody opens while a rehearsal begins is not touched.
func TestRehearseOthersMarket(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		theirs := market.Opening{Accounts: 2, Funds: 7, Strategy: "fine"}
		conn := backendtest.Dial(t, s)
		dialled := 0
		c.Dial = func(ctx context.Context) (*backend.Conn, error) {
			if dialled++; dialled == 2 { // the first looked, the second seeds
				if err := market.Seed(ctx, conn, c.Keys, theirs); err != nil {
					t.Error(err)
				}
			}
			return s.Dial(ctx)
		}
		if err := Rehearse(t.Context(), c); !errors.Is(err, market.ErrOccupied) {
			t.Errorf("got %v, want ErrOccupied", err)
		}
		if left := under(t, s, c.Keys.Prefix()); len(left) != 3 {
			t.Errorf("of two accounts and a note are left: %v", left)
		}
	})
}

// TestRehearseBroken: what is wrong with one client alone is found before the load starts.
func TestRehearseBroken(t *testing.T) {
	s := backendtest.Embedded(t)
	lazy := func(context.Context, market.Order, market.Purchaser) (market.Receipt, error) {
		return market.Receipt{}, nil
	}
	blind := func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		r, err := next.Purchase(ctx, o)
		if errors.Is(err, market.ErrNotListed) {
			err = nil
		}
		return r, err
	}
	told := false
	thief := func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		if told {
			return market.Receipt{}, market.ErrNotListed
		}
		told = true
		return market.Receipt{}, nil
	}
	for _, c := range []struct {
		purchase func(context.Context, market.Order, market.Purchaser) (market.Receipt, error)
		want     string
	}{
		{lazy, "purchase of an item that is gone: got <nil>"},
		{blind, "purchase of an item that is gone: got <nil>"},
		{thief, "one client alone breaks the market"},
	} {
		broken := config(t, s, onPurchase(t, "watch", c.purchase))
		if err := Rehearse(t.Context(), broken); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		gone(t, s, broken.Keys)
	}
}

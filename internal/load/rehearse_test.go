package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

func TestRehearse(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		for _, strategy := range strategies.All() {
			c := config(t, s, spec(t, strategy.Name))
			c.Mix, c.Wallets, c.Funds = result.Mix{Sellers: 5, Buyers: 5}, 2, 0
			if _, err := Rehearse(t.Context(), c.Point, c.Options); err != nil {
				t.Error(err)
			}
			gone(t, s, c.Keys)
		}
	})
}

// as is c, dialled by a user who may do everything but run one command.
func (c plan) as(t *testing.T, s *backend.Server, without string) plan {
	t.Helper()
	conn := testkit.Dial(t, s)
	defer conn.Close()
	err := conn.Do(t.Context(), "ACL", "SETUSER", "limited",
		"reset", "on", ">pw", "~*", "&*", "+@all", "-"+without).Err()
	if err != nil {
		t.Fatal(err)
	}
	target := s.Target
	target.Username, target.Password = "limited", "pw"
	c.Servers.Market = redisconn.To(target)
	return c
}

// rehearseAtOnce ends a rehearsal that waits for a lock, whose time-out has to be
// longer. A busy machine is slow.
func rehearseAtOnce(t *testing.T, c plan) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Rehearse(ctx, c.Point, c.Options)
	return err
}

// TestRehearseDenied: whichever command is missing, the rehearsal says so at
// once and leaves nothing behind. It names the command, but Redis 7.0 does not
// name one that a script calls.
func TestRehearseDenied(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	admin := testkit.Dial(t, s)
	always := []string{
		"exists", "unlink", "hgetall", "hsetnx", "hset", "hincrby", "sadd", "zrandmember",
		"zscore", "hget", "sismember", "sscan", "zscan", "zadd", "srem", "zrem",
	}

	for strategy, more := range map[string][]string{
		"watch":                   {"watch", "multi", "exec", "unwatch"},
		"fine-wallet:timeout=10m": {"setnx", "watch", "get", "del"},
		"unsafe":                  nil,
		"lua":                     {"evalsha", "eval"},
		"lua-shared":              {"evalsha", "eval"},
	} {
		for _, command := range append(more, always...) {
			if strategy == "unsafe" && command == "hincrby" {
				continue // minting only, as in the others
			}

			c := config(t, s, spec(t, strategy)).as(t, s, command)
			if err := admin.ScriptFlush(t.Context()).Err(); err != nil { // else nobody needs EVAL
				t.Fatal(err)
			}

			err := rehearseAtOnce(t, c)
			denied, is := redisconn.Denied(err)
			named := denied == command || denied == "" && strings.HasPrefix(strategy, "lua")
			if !is || !named {
				t.Errorf("%s without %s: %v", strategy, command, err)
			}
			gone(t, s, c.Keys)
		}
	}
}

// TestRehearseInterrupted: the user may stop a rehearsal, too, and nothing is left.
func TestRehearseInterrupted(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config(t, s, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
			cancel()
			return next()
		}))

		if _, err := Rehearse(ctx, c.Point, c.Options); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		gone(t, s, c.Keys)
	})
}

// TestRehearseOthersMarket: a market that somebody opens while a rehearsal
// begins is not touched.
func TestRehearseOthersMarket(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		theirs := market.Opening{Accounts: 2, Funds: 7, Strategy: "fine"}
		conn := testkit.Dial(t, s)

		dialled := 0
		c.Servers.Market = s.Dialer("").WithWrap(
			func(ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
				dialled++
				if dialled == 2 { // the first looked, the second seeds
					if err := marketstore.Seed(ctx, conn, c.Keys, theirs); err != nil {
						t.Error(err)
					}
				}
				return dial(ctx)
			})

		if _, err := Rehearse(t.Context(), c.Point, c.Options); !errors.Is(err, marketstore.ErrOccupied) {
			t.Errorf("got %v, want ErrOccupied", err)
		}

		if left := under(t, s, c.Keys.Prefix()); len(left) != 3 {
			t.Errorf("of two accounts and a note are left: %v", left)
		}
	})
}

// TestRehearseBroken: what is wrong with one client alone is found before the load starts.
func TestRehearseBroken(t *testing.T) {
	t.Parallel()
	s := testkit.Embedded(t)
	lazy := func(attempt) (market.Receipt, error) {
		return market.Receipt{}, nil
	}

	blind := func(next attempt) (market.Receipt, error) {
		r, err := next()
		if errors.Is(err, market.ErrNotListed) {
			err = nil
		}
		return r, err
	}

	// liar says that its first purchase was made, makes none, and refuses all after it.
	told := false
	liar := func(next attempt) (market.Receipt, error) {
		if told {
			return market.Receipt{}, market.ErrNotListed
		}
		told = true
		return market.Receipt{}, nil
	}

	for _, c := range []struct {
		purchase func(attempt) (market.Receipt, error)
		want     string
	}{
		{lazy, "purchase of an item that is gone: got <nil>"},
		{blind, "purchase of an item that is gone: got <nil>"},
		{liar, "one client alone breaks the market"},
	} {
		broken := config(t, s, onPurchase(t, "watch", c.purchase))
		_, err := Rehearse(t.Context(), broken.Point, broken.Options)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		gone(t, s, broken.Keys)
	}
}

// A lock that notifies its waiters needs channels, which only a worker that waits uses,
// and a release that somebody waits for.
func TestRehearsalNeedsChannels(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)

	// A user may lack the channels, or the command that subscribes to them.
	for without, channels := range map[string]string{"channels": "resetchannels", "subscribe": "&*"} {
		c := config(t, s, spec(t, "coarse:redisson:timeout=10m"))
		user := []any{"ACL", "SETUSER", "deaf", "reset", "on", ">pw", "~*", "+@all", channels}
		if without == "subscribe" {
			user = append(user, "-subscribe")
		}
		testkit.Succeeds(t, testkit.Dial(t, s).Do(t.Context(), user...).Err())

		target := s.Target
		target.Username, target.Password = "deaf", "pw"
		c.Servers.Market = redisconn.To(target)

		err := rehearseAtOnce(t, c)
		if _, denied := redisconn.Denied(err); !denied ||
			!strings.Contains(redisconn.Explain(err).Error(), "ACL SETUSER") {
			t.Errorf("without %s: %v, want the right that is missing", without, redisconn.Explain(err))
		}
		gone(t, s, c.Keys)
	}
}

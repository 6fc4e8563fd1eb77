package load

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// under lists the keys with a prefix.
func under(t *testing.T, s *backend.Server, prefix string) []string {
	t.Helper()
	conn := testkit.Dial(t, s)
	defer conn.Close()
	keys := testkit.Must(conn.Keys(t.Context(), prefix+"*").Result())(t)
	slices.Sort(keys)
	return keys
}

// gone checks that nothing of a market is left.
func gone(t *testing.T, s *backend.Server, keys market.Keys) {
	t.Helper()
	if left := under(t, s, keys.Prefix()); len(left) > 0 {
		t.Errorf("%d keys are left behind: %v", len(left), left[:min(len(left), 10)])
	}
}

// TestRemoves: a run leaves nothing behind, whatever its strategy, and touches
// nothing beside its prefix.
func TestRemoves(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		conn := testkit.Dial(t, s)

		for _, strategy := range strategies.All() {
			c := config(t, s, spec(t, strategy.Name))
			// A neighbour's key: all of the run's prefix but its last colon.
			neighbour := strings.TrimSuffix(c.Keys.Prefix(), ":")
			testkit.Succeeds(t, conn.Set(t.Context(), neighbour, "mine", 0).Err())

			row, err := c.run(t.Context())
			if err != nil || !row.Audit.OK {
				t.Fatalf("%s: %v, audit %+v", strategy.Name, err, row.Audit)
			}

			gone(t, s, c.Keys)
			if value, err := conn.Get(t.Context(), neighbour).Result(); value != "mine" {
				t.Errorf("%s: the neighbour is %q, %v", strategy.Name, value, err)
			}
		}

		if left := under(t, s, ""); len(left) != len(strategies.All()) {
			t.Errorf("the neighbours should be all that is left: %v", left)
		}
	})
}

// TestKeep: a kept market is the one that was audited, and a second run refuses
// to trade in it.
func TestKeep(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		c.Keep = true
		row := testkit.Must(c.run(t.Context()))(t)

		conn := testkit.Dial(t, s)
		before := testkit.Must(market.ReadSnapshot(t.Context(), conn, c.Keys, 2))(t)
		if n := int64(len(before.Inventory[2])); n != row.Bought {
			t.Errorf("the buyer owns %d items, and bought %d", n, row.Bought)
		}

		keysBefore := under(t, s, "")
		// The second run would remove its market: this one is not its own.
		c.Keep = false
		second, err := c.run(t.Context())
		if !errors.Is(err, marketstore.ErrOccupied) ||
			second.Status != stored.Incomplete || second.Audit.Done {
			t.Errorf("a second run: %s, audited %t, %v; want incomplete, ErrOccupied",
				second.Status, second.Audit.Done, err)
		}

		if _, err := Rehearse(t.Context(), c.Point, c.Options); !errors.Is(err, marketstore.ErrOccupied) {
			t.Errorf("rehearsing: %v, want ErrOccupied", err)
		}

		after, err := market.ReadSnapshot(t.Context(), conn, c.Keys, 2)
		if err != nil || !reflect.DeepEqual(before, after) || !slices.Equal(keysBefore, under(t, s, "")) {
			t.Errorf("the kept market was touched: %v", err)
		}
	})
}

// TestNothingStarted: a run that fails before it seeds has nothing to remove, and
// says so by not saying otherwise.
func TestNothingStarted(t *testing.T) {
	t.Parallel()
	away := errors.New("server is away")
	c := on1x1(Options{
		Duration: time.Second, Keys: testkit.Keys(t),
	})
	c.Servers.Market = c.Servers.Market.WithWrap(
		func(context.Context, redisconn.DialFunc) (*redisconn.Conn, error) {
			return nil, away
		})
	c.of(spec(t, "watch"))

	row, err := c.run(t.Context())
	if row.Status != stored.Incomplete || row.Strategy != "watch" || !errors.Is(err, away) ||
		strings.Contains(err.Error(), "left behind") {
		t.Errorf("row %+v, error %v", row, err)
	}
}

// TestStoppedEarly: a user who stops a run while it is being set up is not told
// that it failed.
func TestStoppedEarly(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config(t, s, spec(t, "watch"))

		for stopAt := range 4 { // seeding, listing, connecting the seller, connecting the buyer
			dialled := 0
			c.Servers.Market = s.Dialer("").WithWrap(
				func(dialCtx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
					if dialled == stopAt {
						cancel()
					}
					dialled++
					return dial(dialCtx)
				})

			if row, err := c.run(ctx); err != nil || row.Status != stored.Interrupted {
				t.Errorf("stopped at connection %d: %s, %v; want interrupted", stopAt, row.Status, err)
			}
			gone(t, s, c.Keys)

			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
		}
	})
}

// TestHistory: a row's history holds every operation that the row counts, the
// locks, and the market's end.
func TestHistory(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine-wallet"))
		c.Mix, c.History = result.Mix{Sellers: 2, Buyers: 2}, t.TempDir()
		row := testkit.Must(c.run(t.Context()))(t)
		h := testkit.Must(history.Read(t.Context(), c.History))(t)

		var minted, listed, bought int64
		for _, o := range h.Ops {
			switch {
			case o.Outcome != history.Applied:
			case o.Kind == history.Mint:
				minted += market.BatchSize
			case o.Kind == history.List:
				listed++
			default:
				bought++
			}
		}

		listed -= listingsEach * int64(c.Mix.Buyers) // which were up before the row began
		// Listings that were under way at the last purchase ended after the row.
		if listed < row.Listed || listed > row.Listed+int64(c.Mix.Sellers) || bought != row.Bought {
			t.Errorf("the history has %d listings and %d purchases, the row %d and %d",
				listed, bought, row.Listed, row.Bought)
		}

		items := int64(len(h.Final.Listings))
		for _, owned := range h.Final.Inventory {
			items += int64(len(owned))
		}
		if items != row.Audit.Items || items != minted {
			t.Errorf("%d items at the end, %d minted, %d audited", items, minted, row.Audit.Items)
		}

		// fine-wallet locks the item for a listing, and the item and the
		// account for a purchase.
		if want := row.Listed + 2*row.Bought; int64(len(h.Holds)) < want {
			t.Errorf("%d holds of locks, want %d or more", len(h.Holds), want)
		}

		if h.Accounts != 4 || h.Subject != "fine-wallet" || h.Run != c.Keys.Prefix() {
			t.Errorf("header %+v", h.Header)
		}

		if _, err := c.run(t.Context()); !errors.Is(err, history.ErrExists) {
			t.Errorf("a second row in the same folder: %v, want %v", err, history.ErrExists)
		}
	})
}

// TestLiarIsCaught: the audit of a run finds that a strategy says that it did what it was
// asked for, and does nothing.
func TestLiarIsCaught(t *testing.T) {
	t.Parallel()
	liar := subjects.Tampered(spec(t, "watch"), func(market.Purchaser) market.Purchaser {
		return fake{}
	})
	c := config(t, testkit.Embedded(t), liar)
	row, err := c.run(t.Context())
	if err != nil || row.Audit.OK || row.Audit.ItemProblems == 0 || row.Audit.MoneyProblems != 2 {
		t.Errorf("%v, audit %+v", err, row.Audit)
	}
}

// TestHistoryOfAMarketThatIsGone: a history without an end gets no verdict.
func TestHistoryOfAMarketThatIsGone(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	c := config(t, s, onPurchase(t, "watch", func(attempt) (market.Receipt, error) {
		s.Close()
		return market.Receipt{}, errLost
	}))
	c.History = t.TempDir()

	if _, err := c.run(t.Context()); err == nil {
		t.Error("the row has no error")
	}

	if _, err := history.Read(t.Context(), c.History); !errors.Is(err, history.ErrDamaged) {
		t.Errorf("Read: %v, want %v", err, history.ErrDamaged)
	}
}

// TestHistoryOfARowThatDidNotBegin: what recorded nothing leaves nothing, and a row
// may be recorded in its place.
func TestHistoryOfARowThatDidNotBegin(t *testing.T) {
	t.Parallel()
	c := config(t, testkit.Embedded(t), spec(t, "fine"))
	c.History = t.TempDir()

	ctx, interrupt := context.WithCancel(t.Context())
	c.Servers.Market = c.Servers.Market.WithWrap(
		func(ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
			if _, err := history.Find(c.History); err == nil { // a worker connects
				interrupt()
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return dial(ctx)
		})

	row, err := c.run(ctx)
	if err != nil || row.Status != stored.Interrupted {
		t.Fatalf("the row is %s, %v; want it %s", row.Status, err, stored.Interrupted)
	}

	if dirs, err := history.Find(c.History); !errors.Is(err, history.ErrNone) {
		t.Errorf("Find: %v, %v; want %v", dirs, err, history.ErrNone)
	}
}

// TestKeysLost: what the server did is no verdict on a strategy, and nothing of
// the run stays behind.
func TestKeysLost(t *testing.T) {
	t.Parallel()

	do := func(t *testing.T, s *backend.Server, commands ...[]any) {
		conn := testkit.Dial(t, s)
		defer conn.Close()
		// With maxmemory 1 the command that evicts may itself be refused, as OOM.
		for _, c := range commands {
			err := conn.Do(context.Background(), c...).Err()
			if err != nil && !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%v: %v", c, err)
			}
		}
	}

	removed := func(t *testing.T, s *backend.Server, keys market.Keys) {
		for _, key := range under(t, s, keys.Prefix()) {
			do(t, s, []any{"del", key})
		}
	}

	for _, c := range []struct {
		name, strategy string
		lose           func(t *testing.T, s *backend.Server, keys market.Keys)
		says           string
	}{
		{"flushed", "watch",
			func(t *testing.T, s *backend.Server, _ market.Keys) { do(t, s, []any{"flushall"}) },
			"run is gone or was made anew"},
		{"flushed under locks", "fine",
			func(t *testing.T, s *backend.Server, _ market.Keys) { do(t, s, []any{"flushall"}) },
			"did somebody flush the database, or remove keys under test:"},
		{"an account removed", "coarse",
			func(t *testing.T, s *backend.Server, keys market.Keys) { do(t, s, []any{"del", keys.User(2)}) },
			"users:2 is gone or was made anew"},
		{"removed at a rate", "lua", removed, "is gone or was made anew"},
		{"removed, hot items", "fine:queue", removed, "is gone or was made anew"},
		{"evicted", "fine", func(t *testing.T, s *backend.Server, keys market.Keys) {
			do(t, s, []any{"config", "set", "maxmemory", 1}, []any{"set", keys.Lock("7"), "x"},
				[]any{"config", "set", "maxmemory", 0})
		}, "its maxmemory-policy is allkeys-random; set noeviction"},
		{"started again without its data", "watch", func(t *testing.T, s *backend.Server, _ market.Keys) {
			if err := s.Restart(context.Background()); err != nil {
				t.Error(err)
			}
		}, "it was started again during the row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Local(t, "--maxmemory-policy", "allkeys-random")
			var purchases atomic.Int64
			var lost time.Time
			var row plan
			row = config(t, s, onPurchase(t, c.strategy, func(next attempt) (market.Receipt, error) {
				if purchases.Add(1) == 5 {
					c.lose(t, s, row.Keys)
					lost = time.Now()
				}
				return next()
			}))

			switch {
			case strings.HasSuffix(c.name, "rate"):
				row.Rate = 100
			case strings.HasSuffix(c.name, "hot items"):
				row.Mix, row.Hot = result.Mix{Buyers: 3}, 1
			}

			row.History = t.TempDir()
			row.timed(time.Hour)
			row.Keep = c.strategy == "fine" // half a market is of no use, and is not kept

			got, err := row.run(t.Context())
			if took := time.Since(lost); took > time.Minute { // of an hour
				t.Errorf("it took %s to end", took)
			}
			if !errors.Is(err, ErrKeysLost) || !strings.Contains(err.Error(), c.says) || got.Audit.Done {
				t.Errorf("%v, audit %+v; want %v, %q, and no verdict", err, got.Audit, ErrKeysLost, c.says)
			}

			if _, err := history.Read(t.Context(), row.History); !errors.Is(err, history.ErrDamaged) {
				t.Errorf("its history: %v, want %v", err, history.ErrDamaged)
			}
			gone(t, s, row.Keys)
		})
	}
}

// TestEvictionOfOthers: a row whose audit finds nothing wrong has a verdict, and says
// that its locks may have gone.
func TestEvictionOfOthers(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t, "--maxmemory-policy", "volatile-ttl")
	conn := testkit.Dial(t, s)
	conn.Set(t.Context(), "neighbour", "x", time.Hour)

	evict := sync.OnceFunc(func() {
		conn.ConfigSet(t.Context(), "maxmemory", "1")
		conn.Set(t.Context(), "another", "x", 0) // refused, once all that may go has gone
		conn.ConfigSet(t.Context(), "maxmemory", "0")
	})

	c := config(t, s, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
		evict()
		return next()
	}))

	// That the seller may be refused meanwhile, with an error, does not matter here.
	row, _ := c.run(t.Context())
	if n, _ := warned(row, result.Evicted); !row.Audit.OK || n != 1 {
		t.Errorf("audit %+v, warnings %v; want one key evicted", row.Audit, row.Warnings)
	}
}

// What another server has evicted, which took the place of the market's, was
// not the market's.
func TestEvictionsOfAnotherServer(t *testing.T) {
	m := &rowMarket{atStart: serverState{process: "first", evicted: 5}}
	if n := m.evictions(serverState{process: "first", evicted: 7}); n != 2 {
		t.Errorf("the same server has evicted %d, want 2", n)
	}
	if n := m.evictions(serverState{process: "second", evicted: 7}); n != 0 {
		t.Errorf("another server has evicted %d of the market's keys, want 0", n)
	}
}

package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// TestRefused: orders that cannot be met are counted by name, and their time is kept apart.
func TestRefused(t *testing.T) {
	answers := []error{
		market.ErrNotListed, market.ErrNotListed, nil, market.ErrContended, market.ErrPriceChanged, nil,
		market.ErrLockLost, market.ErrStale, market.ErrInsufficientFunds,
		fmt.Errorf("wrapped: %w", market.ErrNotListed), nil,
		market.ErrStale, // begun in the row, which ends meanwhile
	}

	synctest.Test(t, func(t *testing.T) {
		next := 0
		_, row := worked(t.Context(), on1x1(Options{Duration: 11500 * time.Millisecond}),
			func(context.Context, market.Order) (market.Receipt, error) {
				time.Sleep(time.Second)
				next++
				return market.Receipt{Retries: 1, LockWait: time.Millisecond, LeaseLost: next == 3},
					answers[(next-1)%len(answers)]
			})

		want := map[string]int64{
			"not_listed": 3, "contended": 1, "price_changed": 1,
			"lock_lost": 1, "stale": 2, "insufficient_funds": 1,
			"not_owned": 1, // the seller, who does nothing
		}
		if !maps.Equal(row.Refused, want) {
			t.Errorf("refused %v, want %v", row.Refused, want)
		}

		got := [...]int64{row.Bought, row.Retries, row.Unknown, row.LeasesLost}
		if got != [...]int64{3, 12, 0, 1} {
			t.Errorf("bought, retries, unknown, leases lost: %v", got)
		}
		if row.GivenUpMS.Mean != 1000 || row.GivenUpMS.Count != 9 ||
			row.WaitMS.Mean != 1000 || row.LockWaitMS.Mean != 1 {
			t.Errorf("given up %v, wait %v, lock wait %v; want 1 s, 1 s, 1 ms",
				row.GivenUpMS, row.WaitMS, row.LockWaitMS)
		}
	})
}

// TestFatal: what only the environment can have caused stops the row, and what
// was measured is kept.
func TestFatal(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		for _, c := range []struct {
			name    string
			cause   error
			unknown int64
		}{
			{"unknown", errLost, 1},
			{"rejected", fmt.Errorf("%w: OOM", market.ErrRejected), 0},
			{"not sent", fmt.Errorf("%w: broken pipe", market.ErrNotSent), 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				failing := config(t, s, failAt(t, 6, c.cause))
				row, err := failing.run(t.Context())
				if !errors.Is(err, c.cause) || row.Status != stored.Incomplete {
					t.Fatalf("status %s, error %v; want incomplete, %v", row.Status, err, c.cause)
				}

				if row.Bought != 5 || row.Unknown != c.unknown || row.Seconds == 0 {
					t.Errorf("bought %d, %d unknown in %v s; want 5, %d",
						row.Bought, row.Unknown, row.Seconds, c.unknown)
				}
				if !row.Audit.Done || !row.Audit.OK ||
					row.Audit.NotApplied != c.unknown || row.Audit.Applied != 0 {
					t.Errorf("audit %+v", row.Audit)
				}
				gone(t, s, failing.Keys)
			})
		}
	})
}

// failAt purchases by watch, but fails the n-th time before it does anything.
func failAt(t *testing.T, n int, cause error) strategies.Spec {
	return onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
		n--
		if n == 0 {
			return market.Receipt{}, cause
		}
		return next()
	})
}

// TestSettled: a purchase that was made although the client was not told is
// found by the audit, and not lost.
func TestSettled(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		told := onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
			r, err := next()
			if err == nil {
				err = errLost
			}
			return r, err
		})

		row, err := config(t, s, told).run(t.Context())
		if !errors.Is(err, errLost) || row.Bought != 0 || row.Unknown != 1 {
			t.Errorf("bought %d, unknown %d, error %v", row.Bought, row.Unknown, err)
		}
		if !row.Audit.OK || row.Audit.Applied != 1 {
			t.Errorf("audit %+v, want one purchase settled as applied", row.Audit)
		}
	})
}

// TestWarmupIsAudited: what is bought in the warm-up is not counted, but the ledgers
// know of it, or the audit would not pass. The user stops the row after 50
// purchases, before the warm-up is over.
func TestWarmupIsAudited(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		var bought atomic.Int64
		c := config(t, s, onPurchase(t, "fine", func(next attempt) (market.Receipt, error) {
			r, err := next()
			if err == nil && bought.Add(1) == 50 {
				cancel()
			}
			return r, err
		}))
		c.Mix, c.Warmup = mix5x5, time.Hour
		c.timed(time.Second)

		row, err := c.run(ctx)
		if err != nil || row.Status != stored.Interrupted {
			t.Fatalf("status %s, error %v; want interrupted", row.Status, err)
		}

		if row.Bought+row.Listed+row.WaitMS.Count != 0 || row.Seconds != 0 {
			t.Errorf("bought %d, listed %d in %v s; want nothing", row.Bought, row.Listed, row.Seconds)
		}

		if !row.Audit.Done || !row.Audit.OK || row.Audit.Items < market.BatchSize {
			t.Errorf("audit %+v", row.Audit)
		}
		gone(t, s, c.Keys)
	})
}

// TestBroke: the row ends when nobody can buy any more, and says so.
func TestBroke(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	for _, mix := range []result.Mix{{Sellers: 1, Buyers: 1}, {Sellers: 2, Buyers: 3}} {
		c := config(t, s, spec(t, "fine"))
		c.Mix, c.Funds = mix, 200
		c.timed(time.Hour)

		row, err := c.run(t.Context())
		if err != nil || row.Status != stored.Complete || !row.Audit.OK {
			t.Fatalf("%s: %s, %v, audit %+v", mix, row.Status, err, row.Audit)
		}

		_, is := warned(row, result.AllBroke)
		if !is || row.Refused["insufficient_funds"] == 0 || row.Seconds > 600 || row.Cut > 0 {
			t.Errorf("%s: after %v s, warnings %v; refused %v, %d cut",
				mix, row.Seconds, row.Warnings, row.Refused, row.Cut)
		}
	}
}

// TestWallets: three buyers who spend 300 coins from one account spend 300, not 900.
func TestWallets(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	c := config(t, s, spec(t, "fine-wallet"))
	c.Mix, c.Wallets, c.Funds, c.Keep = result.Mix{Sellers: 2, Buyers: 3}, 1, 300, true
	c.timed(time.Hour)

	row, err := c.run(t.Context())
	if err != nil || !row.Audit.OK || len(row.PerBuyer) != 3 {
		t.Fatalf("%v, by buyer %v, audit %+v", err, row.PerBuyer, row.Audit)
	}

	market := testkit.Must(market.ReadSnapshot(t.Context(), testkit.Dial(t, s), c.Keys, 3))(t)
	if market.Funds[3] != 0 || market.Funds[1]+market.Funds[2] != 900 ||
		int64(len(market.Inventory[3])) != row.Bought {
		t.Errorf("funds %v, %d items with the buyers' account, bought %d",
			market.Funds, len(market.Inventory[3]), row.Bought)
	}

	for _, key := range under(t, s, c.Keys.Prefix()+"users:") {
		if strings.HasSuffix(key, ":4") {
			t.Errorf("%s: a fourth account", key)
		}
	}
}

// TestPrivateServerDies: keys on a server that ends with the run are nobody's trouble.
func TestPrivateServerDies(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	c := config(t, s, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
		return next()
	}))
	c.Private = true
	if _, err := c.run(t.Context()); err == nil || strings.Contains(err.Error(), "left behind") {
		t.Errorf("error %v should say nothing of keys", err)
	}
}

// TestUndeclaredKeys: a key that the subject does not list would stay on a user's
// server, and is found on ours.
func TestUndeclaredKeys(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	admin := testkit.Dial(t, s)
	c := config(t, s, onPurchase(t, "fine", func(next attempt) (market.Receipt, error) {
		if err := admin.Set(t.Context(), "forgotten", 1, 0).Err(); err != nil {
			t.Error(err)
		}
		return next()
	}))
	c.Private = true

	row, err := c.run(t.Context())
	if !errors.Is(err, ErrUndeclared) || !strings.Contains(err.Error(), "forgotten") ||
		row.Bought == 0 {
		t.Errorf("bought %d, %v; want %v and the key", row.Bought, err, ErrUndeclared)
	}

	testkit.Succeeds(t, admin.Del(t.Context(), "forgotten").Err())
	c.of(spec(t, "fine:fenced"))
	if _, err := c.run(t.Context()); err != nil {
		t.Errorf("with nothing forgotten: %v", err)
	}
}

// TestUnsafeIsCaught: the control loses items and coins when several buy, and the audit
// tells. On a busy machine that takes longer.
func TestUnsafeIsCaught(t *testing.T) {
	s := testkit.Local(t)
	for length := 700 * time.Millisecond; ; length *= 4 {
		c := config(t, s, spec(t, "unsafe"))
		c.Mix = mix5x5
		c.timed(length)
		row, err := c.run(t.Context())
		if err != nil || row.Status != stored.Complete || !row.Audit.Done {
			t.Fatalf("%s, %v, audit %+v: a violation is not an error", row.Status, err, row.Audit)
		}

		if row.Audit.ItemProblems == 0 || row.Audit.MoneyProblems == 0 {
			if length < 10*time.Second {
				continue
			}
			t.Fatalf("%d purchases in %s, audit %+v; want items and accounts wrong",
				row.Bought, length, row.Audit)
		}

		if row.Audit.OK || len(row.Audit.Problems) == 0 {
			t.Errorf("no problem is told in words: %+v", row.Audit)
		}

		t.Logf("%d purchases, %d items and %d of 10 accounts wrong",
			row.Bought, row.Audit.ItemProblems, row.Audit.MoneyProblems)
		return
	}
}

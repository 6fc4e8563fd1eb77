package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestRefused: orders that cannot be met are counted by name, and their time is kept apart.
func TestRefused(t *testing.T) {
	answers := []error{
		market.ErrNotListed, market.ErrNotListed, nil, market.ErrContended, market.ErrPriceChanged, nil,
		market.ErrLockLost, market.ErrStale, market.ErrInsufficientFunds, fmt.Errorf("wrapped: %w", market.ErrNotListed), nil,
	}
	synctest.Test(t, func(t *testing.T) {
		next := 0
		row := alone(t.Context(), Config{Purchases: 3}, func(context.Context, market.Order) (market.Receipt, error) {
			time.Sleep(time.Second)
			next++
			return market.Receipt{Retries: 1, LockWait: time.Millisecond, LeaseLost: next == 3}, answers[next-1]
		})
		want := map[string]int64{
			"not_listed": 3, "contended": 1, "price_changed": 1, "lock_lost": 1, "stale": 1, "insufficient_funds": 1,
			"not_owned": 1, // the seller, who does nothing
		}
		if !maps.Equal(row.Refused, want) {
			t.Errorf("refused %v, want %v", row.Refused, want)
		}
		got := [...]int64{row.Gone, row.Contended, row.Bought, row.Retries, row.Unknown, row.LeasesLost}
		if got != [...]int64{3, 1, 3, 11, 0, 1} {
			t.Errorf("gone, contended, bought, retries, unknown, leases lost: %v", got)
		}
		if row.GivenUpMS.Mean < 1000 || row.GivenUpMS.Mean > 1001 || row.WaitMS.Mean < 1000 || row.LockWaitMS.Mean != 1 {
			t.Errorf("given up %v, wait %v, lock wait %v; want 1 s, 1 s, 1 ms", row.GivenUpMS, row.WaitMS, row.LockWaitMS)
		}
	})
}

// TestFatal: what only the environment can have caused stops the row, and what was measured is kept.
func TestFatal(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
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
				row, err := Run(t.Context(), failing)
				if !errors.Is(err, c.cause) || row.Status != Incomplete {
					t.Fatalf("status %s, error %v; want incomplete, %v", row.Status, err, c.cause)
				}
				if row.Bought != 5 || row.Unknown != c.unknown || row.Listed == 0 || row.Seconds == 0 {
					t.Errorf("bought %d, %d unknown, %d listed in %v s; want 5, %d", row.Bought, row.Unknown, row.Listed, row.Seconds, c.unknown)
				}
				if !row.Audit.Done || !row.Audit.OK || row.Audit.NotApplied != c.unknown || row.Audit.Applied != 0 {
					t.Errorf("audit %+v", row.Audit)
				}
				gone(t, s, failing.Keys)
			})
		}
	})
}

// failAt purchases by watch, but fails the n-th time before it does anything.
func failAt(t *testing.T, n int, cause error) Subject {
	return onPurchase(t, "watch", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		if n--; n == 0 {
			return market.Receipt{}, cause
		}
		return next.Purchase(ctx, o)
	})
}

// TestSettled: a purchase that was made although the client was not told is found by the audit, and not lost.
func TestSettled(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		told := onPurchase(t, "watch", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
			r, err := next.Purchase(ctx, o)
			if err == nil {
				err = errLost
			}
			return r, err
		})
		row, err := Run(t.Context(), config(t, s, told))
		if !errors.Is(err, errLost) || row.Bought != 0 || row.Unknown != 1 {
			t.Errorf("bought %d, unknown %d, error %v", row.Bought, row.Unknown, err)
		}
		if !row.Audit.OK || row.Audit.Applied != 1 {
			t.Errorf("audit %+v, want one purchase settled as applied", row.Audit)
		}
	})
}

// TestWarmupIsAudited: what is bought in the warm-up is not counted, but the ledgers know of it, or the audit would
// not pass. The user stops the row after 50 purchases, before the warm-up is over.
func TestWarmupIsAudited(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var bought atomic.Int64
		c := config(t, s, onPurchase(t, "fine", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
			r, err := next.Purchase(ctx, o)
			if err == nil && bought.Add(1) == 50 {
				cancel()
			}
			return r, err
		}))
		c.Mix, c.Purchases, c.Warmup, c.Duration = mix5x5, 0, time.Hour, time.Second
		row, err := Run(ctx, c)
		if err != nil || row.Status != Interrupted {
			t.Fatalf("status %s, error %v; want interrupted", row.Status, err)
		}
		if row.Bought+row.Listed+row.Gone != 0 || row.Seconds != 0 {
			t.Errorf("bought %d, listed %d, gone %d in %v s; want nothing", row.Bought, row.Listed, row.Gone, row.Seconds)
		}
		if !row.Audit.Done || !row.Audit.OK || row.Audit.Items < market.BatchSize {
			t.Errorf("audit %+v", row.Audit)
		}
		gone(t, s, c.Keys)
	})
}

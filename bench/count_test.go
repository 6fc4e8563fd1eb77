package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// The tests of this file run on synctest's clock: an operation takes exactly as long as it sleeps.

// lasting is a purchase of a given length.
func lasting(d time.Duration) func(context.Context, market.Order) (market.Receipt, error) {
	return func(context.Context, market.Order) (market.Receipt, error) {
		time.Sleep(d)
		return market.Receipt{}, nil
	}
}

// alone works a row of one buyer, beside a seller that does nothing.
func alone(ctx context.Context, c Config, purchase func(context.Context, market.Order) (market.Receipt, error)) Row {
	c.Subject, c.Mix = noSubject{}, mix1x1
	crew := fakeCrew(c,
		func(b *brake) market.Purchaser { return fake{onList: untouched(b)} },
		func(*brake) market.Purchaser { return fake{onPurchase: purchase} })
	crew.work(ctx, c.Warmup, c.duration())
	return crew.row(c)
}

// TestCounted: of purchases of 3 s each, those started at 12, 15 and 18 s are counted when the row lasts from 10 to
// 20 s. The one that started at 9 s belongs to the warm-up, and the one in flight at 20 s is finished.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		row := alone(t.Context(), Config{Warmup: 10 * time.Second, Duration: 10 * time.Second}, lasting(3*time.Second))
		if row.Status != Complete || row.Seconds != 10 || row.Bought != 3 || row.PurchasesPerSecond != 0.3 {
			t.Errorf("%s: %d purchases in %v s, %v a second; want complete, 3 in 10 s, 0.3 a second",
				row.Status, row.Bought, row.Seconds, row.PurchasesPerSecond)
		}
		for name, ms := range map[string]float64{"p50": row.WaitMS.P50, "max": row.WaitMS.Max} {
			if ms < 3000 || ms > 3003 {
				t.Errorf("%s of the wait is %v ms, want 3 s to three digits", name, ms)
			}
		}
		if took := time.Since(start); took != 21*time.Second {
			t.Errorf("the row took %s, want 21 s: until the last purchase has ended", took)
		}
	})
}

// TestStartDecides: an operation counts by when it started, to the nanosecond, however long it took.
func TestStartDecides(t *testing.T) {
	from := time.Now()
	for _, c := range []struct {
		start time.Duration
		want  int64
	}{{-time.Nanosecond, 0}, {0, 1}, {time.Hour, 1}} {
		r, l := newBuyerRecorder(), newSellerRecorder()
		r.from, l.from = from, from
		start := from.Add(c.start)
		r.purchase(start, start.Add(time.Minute), backend.Counts{RoundTrips: 4, Commands: 9}, market.Receipt{Retries: 2, Polls: 5}, nil)
		l.list(start, start.Add(time.Minute), market.Receipt{Retries: 2, Polls: 5}, nil)
		got := [...]int64{r.bought, r.retries / 2, r.polls / 5, r.roundTrips / 4, r.commands / 9, r.purchases.TotalCount(),
			r.lockWait.TotalCount(), l.listed, l.listRetries / 2, l.polls / 5, l.listings.TotalCount()}
		for i, n := range got {
			if n != c.want {
				t.Errorf("started %s after the warm-up: counter %d is %d, want %d", c.start, i, n, c.want)
			}
		}
	}
}

func TestLongWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := alone(t.Context(), Config{Purchases: 2}, lasting(61*time.Second))
		if row.WaitMS.Max < 60_000 || row.WaitMS.Max > 60_060 {
			t.Errorf("max wait is %v ms, want it clipped at 60 s", row.WaitMS.Max)
		}
		if len(row.Warnings) != 1 || row.Warnings[0] != "2 waits above 60 s are recorded as 60 s" {
			t.Errorf("warnings %q", row.Warnings)
		}
	})
}

// TestInterrupt: the purchase in flight when the user stops a row ends well, and is counted.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(4*time.Second, cancel).Stop()
		row := alone(ctx, Config{Duration: time.Hour}, func(ctx context.Context, _ market.Order) (market.Receipt, error) {
			time.Sleep(3 * time.Second)
			return market.Receipt{}, ctx.Err()
		})
		if row.Status != Interrupted || row.Seconds != 4 || row.Bought != 2 {
			t.Errorf("%s, %d purchases in %v s; want interrupted, 2 in 4 s", row.Status, row.Bought, row.Seconds)
		}
	})
}

// TestGrace: an operation that would never end is cut off, and its outcome is unknown.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		row := alone(t.Context(), Config{Duration: time.Second}, func(ctx context.Context, _ market.Order) (market.Receipt, error) {
			<-ctx.Done()
			return market.Receipt{}, ctx.Err()
		})
		if took := time.Since(start); took != time.Second+grace {
			t.Errorf("took %s, want a second and the grace of %s", took, grace)
		}
		if row.Bought != 0 || row.Unknown != 1 || row.Seconds != 1 {
			t.Errorf("bought %d, %d unknown in %v s; want 0, 1, 1 s", row.Bought, row.Unknown, row.Seconds)
		}
	})
}

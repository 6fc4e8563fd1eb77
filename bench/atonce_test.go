package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// batch is a short row of five buyers that begin at once.
func batch(t *testing.T, subject Subject) Config {
	c := config(t, testkit.Local(t), subject)
	c.Mix, c.Purchases, c.Duration = result.Mix{Sellers: 2, Buyers: 5}, 0, 20*time.Millisecond
	return c
}

// TestAtOnce: every buyer buys the same number of items, the last of which ends the row, also after a warm-up.
func TestAtOnce(t *testing.T) {
	for _, warmup := range []time.Duration{0, 20 * time.Millisecond} {
		c := batch(t, spec(t, "watch"))
		c.Warmup = warmup
		row, err := AtOnce(t.Context(), c)
		if err != nil || row.Status != result.Complete || !row.Audit.Done || !row.Audit.OK {
			t.Fatalf("%s, %v, audit %+v", row.Status, err, row.Audit)
		}
		each := slices.Repeat([]int64{row.Bought / 5}, 5)
		if row.Bought == 0 || !slices.Equal(row.PerBuyer, each) || row.Listed != row.Bought || row.Seconds <= 0 {
			t.Errorf("%d bought and %d listed in %v s, %v by each", row.Bought, row.Listed, row.Seconds, row.PerBuyer)
		}
		if row.Tries == nil || row.Tries.Max < 1 || row.Gone != 0 || row.Contended != 0 {
			t.Errorf("tries %+v, %d gone, %d given up", row.Tries, row.Gone, row.Contended)
		}
	}
}

// TestAtOnceOverlaps: no buyer ends before all have begun.
func TestAtOnceOverlaps(t *testing.T) {
	var begun atomic.Int32
	all := make(chan struct{})
	c := batch(t, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
		if begun.Add(1) == 5 {
			close(all)
		}
		<-all
		return next()
	}))
	if row, err := AtOnce(t.Context(), c); err != nil || row.Bought < 5 {
		t.Errorf("%d bought, %v", row.Bought, err)
	}
}

// TestAtOnceGoesOn after an order that was given up under contention, and ends at another refusal.
func TestAtOnceGoesOn(t *testing.T) {
	for _, refusal := range []error{market.ErrContended, market.ErrPriceChanged} {
		c := batch(t, onPurchase(t, "watch", func() func(attempt) (market.Receipt, error) {
			refused := make(chan struct{}, 1)
			return func(next attempt) (market.Receipt, error) {
				select {
				case refused <- struct{}{}:
					return market.Receipt{}, refusal
				default:
					return next()
				}
			}
		}()))
		row, err := AtOnce(t.Context(), c)
		if refusal == market.ErrContended && (err != nil || row.Contended != 1 || row.Bought%5 != 0) {
			t.Errorf("%v, %d given up, %d bought; want all to have bought", err, row.Contended, row.Bought)
		}
		if refusal == market.ErrPriceChanged && (!errors.Is(err, refusal) || row.Status != result.Incomplete) {
			t.Errorf("%s, %v; want incomplete, %v", row.Status, err, refusal)
		}
		if !row.Audit.OK {
			t.Errorf("%v: audit %+v", refusal, row.Audit)
		}
	}
}

// TestAtOnceInterrupted: all finish what they began, and the market is audited.
func TestAtOnceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := batch(t, onPurchase(t, "watch", func(next attempt) (market.Receipt, error) {
		cancel()
		return next()
	}))
	c.Duration = time.Hour
	row, err := AtOnce(ctx, c)
	if err != nil || row.Status != result.Interrupted || row.Bought != 5 || !row.Audit.OK {
		t.Errorf("%s, %v, %d bought, audit %+v", row.Status, err, row.Bought, row.Audit)
	}
}

// simulated are the rows of the simulation behind the claims about back-off, as if this run had measured them; what it was
// not asked for lies between.
func simulated() *result.Run {
	run := &result.Run{}
	run.Manifest.Config.Reproduces = []string{"backoff"}
	for i, of := range []struct{ tries, seconds [3]float64 }{
		{[3]float64{5.05, 13.8, 24.24}, [3]float64{.3774, 1.15, 2.028}},
		{[3]float64{5.08, 12.4, 18.54}, [3]float64{3.444, 36.2, 63.82}},
		{[3]float64{3.90, 6.66, 7.957}, [3]float64{.4642, 2.93, 4.894}},
		{[3]float64{3.79, 7.43, 10.02}, [3]float64{.4394, 2.13, 4.664}},
	} {
		for j, mix := range AtOnceMixes() {
			run.Rows = append(run.Rows, result.Row{
				Strategy: AtOnceStrategies()[i], Sellers: mix.Sellers, Buyers: mix.Buyers, Trial: 1, Status: result.Complete,
				Seconds: 1000 * of.seconds[j], Bought: 1000 * int64(mix.Buyers),
				Retries: int64((of.tries[j] - 1) * 1000 * float64(mix.Buyers)), Audit: result.Audit{Done: true, OK: true},
			})
		}
	}
	return run
}

// TestJudgeSimulation: the simulation's own numbers bear the claims out, and are those that the claims say are published.
func TestJudgeSimulation(t *testing.T) {
	claims := Judge(simulated())
	if len(claims) != 7 {
		t.Fatalf("%d claims", len(claims))
	}
	numbers := []string{"4.80", "1.86", "0.76", "0.43", "0.08", "0.79", "1.05"} // 1.86 is 1/0.54
	for i, c := range claims {
		number := strings.NewReplacer("0.54", "1.86").Replace(c.Published)
		if c.ID != 12+i || holds(c) != "yes" || !strings.Contains(c.Measured, numbers[i]) ||
			!strings.Contains(number, strings.TrimSuffix(numbers[i], "0")) {
			t.Errorf("claim %d, published %q: %s: %s", c.ID, c.Published, holds(c), c.Measured)
		}
	}
}

// TestJudgeBackoff moves one row at a time to either side of a tolerance.
func TestJudgeBackoff(t *testing.T) {
	tries := func(each float64) func(*result.Row) {
		return func(r *result.Row) { r.Retries = int64((each - 1) * float64(r.Bought)) }
	}
	seconds := func(each float64) func(*result.Row) { return func(r *result.Row) { r.Seconds = 1000 * each } }
	for _, c := range []struct {
		claim  int
		row    string
		change func(*result.Row)
		want   string
	}{
		{12, "watch 1x100", tries(10.2), "yes"},
		{12, "watch 1x100", tries(10), "NO"},
		{12, "watch 1x50", tries(100), "yes"},
		{13, "watch 1x100", seconds(1.9), "yes"},
		{13, "watch 1x100", seconds(1.8), "NO"}, // less than half a client's time
		{13, "watch 1x100", seconds(7.5), "yes"},
		{13, "watch 1x100", seconds(7.6), "NO"},
		{14, "watch:backoff=exp 1x100", tries(12.2), "yes"},
		{14, "watch:backoff=exp 1x100", tries(12), "NO"},
		{15, "watch:backoff=full 1x100", tries(9.2), "yes"},
		{15, "watch:backoff=full 1x100", tries(9.3), "NO"},
		{16, "watch:backoff=decorrelated 1x100", seconds(63), "yes"},
		{16, "watch:backoff=decorrelated 1x100", seconds(64), "NO"}, // either kind
		{16, "watch:backoff=full 1x100", seconds(64), "NO"},
		{17, "watch:backoff=full 1x100", tries(10.1), "NO"},
		{18, "watch:backoff=full 1x100", seconds(4.6), "NO"},
		{18, "watch:backoff=full 1x100", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{18, "watch:backoff=full 1x100", func(r *result.Row) { r.Audit.OK = false }, "not judged"},
	} {
		run := simulated()
		c.change(rowOf(t, run.Rows, c.row))
		if got := Judge(run)[c.claim-12]; holds(got) != c.want {
			t.Errorf("claim %d with %s changed: %s, want %s: %s", c.claim, c.row, holds(got), c.want, got.Measured)
		}
	}
}

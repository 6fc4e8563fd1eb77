package load

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// TestCounted: a purchase that ended in the measured time, from 10 to 20 s, is part of
// the throughput and the course; one that began in it is part of the waits, whole.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s, between = time.Second, endLooks / 2 // none begins or ends just when the row looks
		// They begin at 0, 9, 11, 12 and 32 s.
		next, takes := 0, []time.Duration{9*s + between, 2 * s, s, 20 * s, 12 * s}
		c := on1x1(Options{Warmup: 10 * time.Second, Duration: 10 * time.Second})
		start := time.Now()
		_, r := worked(t.Context(), c, func(context.Context, market.Order) (market.Receipt, error) {
			next++
			time.Sleep(takes[next-1])
			return market.Receipt{Retries: next, LockWait: time.Second}, nil
		})

		boughtWrong := r.Bought != 2 || r.PerBuyer[0] != 2 || r.Course[2] != 1 || r.Course[4] != 1
		if r.Status != stored.Complete || r.Seconds != 10 || boughtWrong {
			t.Errorf("%s: %d purchases in %v s, by interval %v; want two, at 1 and 2 s",
				r.Status, r.Bought, r.Seconds, r.Course)
		}

		w := r.WaitMS
		waitsWrong := w.Count != 2 || w.Mean != 10_500 || w.Max != 20_000
		if waitsWrong || r.Retries != 3+4 || r.LockWaitMS.Mean != 1000 {
			t.Errorf("waits %+v, %d retries; want those of 1 and 20 s", w, r.Retries)
		}

		if r.BusyBuyers != 1 || r.PresentBuyer != 1 || r.Cut != 0 {
			t.Errorf("%v buyers busy, %v there, %d cut", r.BusyBuyers, r.PresentBuyer, r.Cut)
		}

		// The purchase that began at 32 s, when the loaded end is just about to be over,
		// is ended without load.
		if took := time.Since(start); took != 44*s+between {
			t.Errorf("the row took %s", took)
		}
	})
}

// processor is what buyers share: it gives each an equal part of its time, so that a
// purchase that needs 20 ms takes as many times that as there are buyers under way.
type processor struct{ underway atomic.Int64 }

func (p *processor) purchase(context.Context, market.Order) (market.Receipt, error) {
	p.underway.Add(1)
	defer p.underway.Add(-1)
	for left := 20 * time.Millisecond; left > 0; {
		time.Sleep(100 * time.Microsecond)
		left -= 100 * time.Microsecond / time.Duration(p.underway.Load())
	}
	return market.Receipt{}, nil
}

// TestLoadedEnd: each of 25 buyers waits half a second in a row of two, also those who
// were waiting when the measured time was over, because the others go on. Were all asked
// to stop then, the last would find the processor free.
func TestLoadedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared processor
		c := plan{
			Point:   result.Point{Mix: result.Mix{Sellers: 1, Buyers: 25}},
			Options: Options{Warmup: time.Second, Duration: 2 * time.Second},
		}

		began := time.Now()
		var first atomic.Int64
		_, r := worked(t.Context(), c, func(ctx context.Context, o market.Order) (market.Receipt, error) {
			if n := first.Add(1); n <= 25 { // so that they do not all come and go together
				time.Sleep(time.Duration(n) * 17 * time.Millisecond)
				return market.Receipt{}, nil
			}
			return shared.purchase(ctx, o)
		})

		// 25 buyers share the processor: each purchase takes 25 times its 20 ms.
		w := r.WaitMS
		waitsWrong := w.Count < 90 || w.P50 < 490 || w.Max > 510 || w.Mean < 498
		if waitsWrong || r.Cut != 0 || r.Status != stored.Complete {
			t.Errorf("waits %+v, %d cut; want 500 ms each", w, r.Cut)
		}

		if took := time.Since(began); took < 3400*time.Millisecond || took > 4100*time.Millisecond {
			t.Errorf("it took %s; want three seconds and two ends of at most 0.5 s", took)
		}
	})
}

// TestEndsAreLimited: an operation that would never end is cut off, and the row says so.
func TestEndsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m, r := worked(t.Context(), on1x1(Options{Duration: time.Second}),
			func(ctx context.Context, _ market.Order) (market.Receipt, error) {
				<-ctx.Done()
				return market.Receipt{}, ctx.Err()
			})

		limit := m.limit(m.point)
		if took := time.Since(start); took < time.Second+2*limit ||
			took > time.Second+2*limit+2*endLooks {
			t.Errorf("took %s, want a second and two ends of %s", took, limit)
		}

		n, is := warned(r, result.WereCut)
		cutWrong := !is || n != 2 || r.Cut != 2
		if cutWrong || r.Unknown != 1 || r.Bought != 0 || r.Seconds != 1 {
			t.Errorf("cut %d, %d unknown, bought %d, warnings %v; want the purchase and the listing",
				r.Cut, r.Unknown, r.Bought, r.Warnings)
		}

		if r.Status != stored.Complete || m.window.failure != nil {
			t.Errorf("%s, %v: what the driver cuts is no failure", r.Status, m.window.failure)
		}
	})
}

// TestInterrupt: the purchase under way when the user stops a row ends well, without a
// loaded end, and its wait is counted.
func TestInterrupt(t *testing.T) {
	for at, want := range map[time.Duration]struct {
		seconds                 float64
		bought, waits, row, cut int64
	}{
		500 * time.Millisecond: {0, 0, 0, 3, 0},
		// The one from 0 to 3 s belongs to the warm-up, but ended in the row.
		5 * time.Second:          {4, 1, 1, 6, 2},
		14500 * time.Millisecond: {13, 4, 4, 15, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			start := time.Now()
			c := on1x1(Options{Warmup: time.Second, Duration: 13 * time.Second})
			_, r := worked(ctx, c, func(ctx context.Context, _ market.Order) (market.Receipt, error) {
				time.Sleep(3 * time.Second)
				return market.Receipt{}, ctx.Err()
			})

			took := time.Since(start)
			endWrong := r.Status != stored.Interrupted || r.Seconds != want.seconds ||
				int64(took.Seconds()) != want.row
			countsWrong := r.Bought != want.bought || r.WaitMS.Count != want.waits
			cutWrong := r.Cut < want.cut-1 || r.Cut > want.cut
			if endWrong || countsWrong || cutWrong {
				t.Errorf("at %s: %s, %d purchases in %v s, %d waits, %d cut, in %s; want %+v",
					at, r.Status, r.Bought, r.Seconds, r.WaitMS.Count, r.Cut, took, want)
			}
		})
	}
}

// TestFailureEndsTheRow: it has no loaded end, and little time for what is under way.
func TestFailureEndsTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var n atomic.Int64
		m, r := worked(t.Context(), plan{
			Point:   result.Point{Mix: result.Mix{Sellers: 1, Buyers: 2}},
			Options: Options{Duration: time.Hour},
		},
			func(ctx context.Context, _ market.Order) (market.Receipt, error) {
				if n.Add(1) == 1 {
					<-ctx.Done()
					return market.Receipt{}, ctx.Err()
				}
				time.Sleep(time.Second)
				return market.Receipt{}, errLost
			})

		if r.Status != stored.Incomplete || !errors.Is(m.window.failure, errLost) ||
			r.Unknown != 2 || r.Seconds != 1 {
			t.Errorf("%s, %v, %d unknown in %v s", r.Status, m.window.failure, r.Unknown, r.Seconds)
		}

		// Of two timers at one instant either comes first: a worker may begin one more
		// pause when the grace ends.
		took, ends := time.Since(start), time.Second+failedGrace
		if took < ends || took > ends+pause {
			t.Errorf("it took %s, want %s", took, ends)
		}
	})
}

// TestLimits: the ends of a row allow an operation what its strategy allows it,
// and what it does besides. A program has longer than it may take to answer, so that its
// silence is an error.
func TestLimits(t *testing.T) {
	c := strategies.Catalogue{Strategies: []strategies.Strategy{program.Strategy("exec:p", nil)}}
	programs := Options{Subject: testkit.Must(c.Parse("exec:p"))(t)}
	if got := programs.limit(result.Point{}); got <= program.AnswerLimit {
		t.Errorf("a program: %s, and it may take %s to answer", got, program.AnswerLimit)
	}

	usual := Options{Subject: inRedis}.limit(result.Point{})
	for name, want := range map[string]time.Duration{
		"watch": usual, "watch:timeout=1s": usual - 5*time.Second,
		"fine": usual, "fine:timeout=30s": usual + 20*time.Second,
		"fine-wallet": usual + 10*time.Second, "lua": usual - 10*time.Second,
	} {
		o := Options{Subject: spec(t, name)}
		if got := o.limit(result.Point{}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		slow := result.Point{Load: result.Load{HoldMS: 10_000, RTTMS: 1000}}
		if got := o.limit(slow); got < want+MaxHold+5*MaxRTT {
			t.Errorf("%s with other work and a network: %s", name, got)
		}
	}
}

// TestShortRows: a row says when it is too short for its longest waits, when the warm-up
// reaches into it, when its halves differ, and when it has too few purchases to tell. One
// that is long enough says nothing of the kind.
func TestShortRows(t *testing.T) {
	const buyers = 20

	takes := func(early, late time.Duration) func() purchasing {
		return func() purchasing {
			start := time.Now()
			return func(context.Context, market.Order) (market.Receipt, error) {
				if time.Since(start) < 6*time.Second { // half of the row
					time.Sleep(early)
				} else {
					time.Sleep(late)
				}
				return market.Receipt{}, nil
			}
		}
	}

	soldOut := func() purchasing {
		start, n := time.Now(), new(atomic.Int64)
		return func(context.Context, market.Order) (market.Receipt, error) {
			late := time.Since(start) >= 6*time.Second
			if late && n.Add(1)%50 > 0 {
				time.Sleep(10 * time.Millisecond)
				return market.Receipt{}, market.ErrNotListed
			}
			time.Sleep(100 * time.Millisecond)
			return market.Receipt{}, nil
		}
	}

	for name, c := range map[string]struct {
		purchase func() purchasing
		want     map[result.Code]float64
	}{
		"sold out": {soldOut, map[result.Code]float64{result.Unsteady: 0.17, result.OutOfStock: 0.88}},
		"steady":   {takes(100*time.Millisecond, 100*time.Millisecond), nil},
		"few":      {takes(time.Second, time.Second), map[result.Code]float64{result.TooFew: 200}},
		"slower": {takes(100*time.Millisecond, 150*time.Millisecond), map[result.Code]float64{
			result.Unsteady: 0.67,
		}},
		"faster": {takes(150*time.Millisecond, 100*time.Millisecond), map[result.Code]float64{
			result.Unsteady: 1.5,
		}},
		"the end": {takes(100*time.Millisecond, 7*time.Second), map[result.Code]float64{
			result.Unsteady:     0.02,
			result.ShortForTail: 1.2,
		}},
		"warm-up": {takes(7*time.Second, 100*time.Millisecond), map[result.Code]float64{
			result.Unsteady:       math.Inf(1),
			result.WarmupUnderway: buyers,
			result.ShortForTail:   0.4,
		}},
		"too long": {takes(61*time.Second, time.Second), map[result.Code]float64{
			result.NothingBought:  0,
			result.WarmupUnderway: buyers,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := plan{
				Point:   result.Point{Mix: result.Mix{Buyers: buyers}},
				Options: Options{Warmup: time.Second, Duration: 10 * time.Second},
			}
			_, r := worked(t.Context(), p, c.purchase())

			for _, code := range []result.Code{
				result.TooFew, result.Unsteady, result.ShortForTail, result.WarmupUnderway,
				result.OutOfStock, result.TimesOff, result.NothingBought, result.WereCut,
			} {
				got, is := warned(r, code)
				want, should := c.want[code]
				if is != should || math.Abs(got-want) > 0.1*want {
					t.Errorf("%s: %s %v, %t; want %v, %t", name, code, got, is, want, should)
				}
			}
		})
	}
}

// TestTimesOff: a time in which a buyer was there and that nobody noted is a defect.
func TestTimesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := on1x1(Options{Duration: 10 * time.Second})
		m, r := worked(t.Context(), c, lasting(time.Second))
		if _, is := warned(r, result.TimesOff); is || r.BusyBuyers != 1 || r.PresentBuyer != 1 {
			t.Errorf("%v busy, %v there, %v", r.BusyBuyers, r.PresentBuyer, r.Warnings)
		}
		m.buyers[0].tally.busy -= 250 * time.Millisecond
		if off, is := warned(m.row(), result.TimesOff); !is || off != 0.975 {
			t.Errorf("with 2.5%% missing: %v, %t", off, is)
		}
	})
}

// TestClipped: waits above a minute are kept as they are in the mean, and as a
// minute in the histogram.
func TestClipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := on1x1(Options{Duration: 122 * time.Second})
		_, r := worked(t.Context(), c, lasting(61*time.Second))
		n, _ := warned(r, result.Clipped)
		w := r.WaitMS
		if n != 2 || w.Mean != 61_000 || w.Max != 61_000 || w.P50 > 60_500 {
			t.Errorf("waits %+v, warnings %v", w, r.Warnings)
		}
	})
}

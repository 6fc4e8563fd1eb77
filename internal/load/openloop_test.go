package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// opened is a row of an open loop, to be changed by a test.
func opened(mix result.Mix, rate float64, warmup, duration time.Duration) plan {
	return plan{
		Point:   result.Point{Mix: mix, Load: result.Load{Rate: rate}},
		Options: Options{Warmup: warmup, Duration: duration, Seed: 3},
	}
}

// TestLatencyFromIntendedStart holds the only buyer for a second in its first order.
// Those that fall due meanwhile wait in the schedule, and their latency says so;
// their service time does not.
func TestLatencyFromIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, stands = 10 * time.Millisecond, time.Second
		first := true
		c := opened(mix1x1, 20, 0, 10*time.Second)
		c.SLO = 500 * time.Millisecond
		_, row := worked(t.Context(), c, func(context.Context, market.Order) (market.Receipt, error) {
			if first {
				first = false
				time.Sleep(stands)
			}
			time.Sleep(takes)
			return market.Receipt{}, nil
		})

		// The same orders, worked out one by one: rate and seed are the row's.
		var free, due, sum, longest time.Duration // when the buyer is free again
		var n, done, late int64
		for s := (&schedule{rate: 20, seed: 3}); ; n++ {
			due = s.take()
			if due >= c.Duration {
				break
			}
			free = max(free, due) + takes
			if n == 0 {
				free += stands
			}
			sum, longest = sum+free-due, max(longest, free-due)
			if free < c.Duration {
				done++
			}
			if free-due > c.SLO {
				late++
			}
		}

		want := result.OpenLoop{Due: n, Done: done, Backlog: n - done, Late: late}
		if *row.Open != want || late < 3 || n < 160 {
			t.Errorf("%+v, want %+v", *row.Open, want)
		}

		w := row.WaitMS
		meanOff := math.Abs(w.Mean - inMS(sum)/float64(n))
		if w.Count != n || meanOff > 1e-9 || w.Max != inMS(longest) || row.Bought != done {
			t.Errorf("latency %+v, bought %d; want a mean of %s, at most %s",
				w, row.Bought, sum/time.Duration(n), longest)
		}

		s := row.ServiceMS
		p50Wrong := s.P50 < 10 || s.P50 > 10.1
		meanOff = math.Abs(s.Mean - 10 - 1000/float64(n))
		if s.Count != n || p50Wrong || s.Max != 1010 || meanOff > 1e-9 {
			t.Errorf("service %+v; want 10 ms, once 1010 ms", s)
		}
	})
}

// TestOrdersAreAccountedFor: each order that fell due in the measured time was done by
// its end, was given up by then or is in the backlog, and is followed to its end under a
// load that goes on; those of the warm-up are none of them.
func TestOrdersAreAccountedFor(t *testing.T) {
	const warmup, measured = 5 * time.Second, 15 * time.Second
	for name, c := range map[string]struct {
		rate            float64
		service         time.Duration
		refused         int // of ten tries
		givesUp, behind bool
	}{
		"idle":           {rate: 20, service: time.Millisecond},
		"busy":           {rate: 20, service: 80 * time.Millisecond},
		"refusals":       {rate: 20, service: 20 * time.Millisecond, refused: 5},
		"overload":       {rate: 30, service: 80 * time.Millisecond, behind: true},
		"far overload":   {rate: 200, service: 80 * time.Millisecond, behind: true, givesUp: true},
		"nobody can buy": {rate: 1, service: 80 * time.Millisecond, refused: 10, behind: true, givesUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				tries, start := 0, time.Now()
				config := opened(result.Mix{Sellers: 1, Buyers: 2}, c.rate, warmup, measured)
				m, row := worked(t.Context(), config, func(
					context.Context, market.Order,
				) (market.Receipt, error) {
					time.Sleep(c.service)
					mu.Lock()
					defer mu.Unlock()
					tries++
					if tries%10 < c.refused {
						return market.Receipt{}, market.ErrNotListed
					}
					return market.Receipt{}, nil
				})

				fell := (&schedule{rate: c.rate, seed: 3}).untaken(warmup, warmup+measured)
				o := row.Open
				if o.Due != fell || row.WaitMS.Count+o.GivenUp != fell ||
					row.ServiceMS.Count != row.WaitMS.Count || row.Cut != 0 {
					t.Errorf("%d orders fell due, and %d were bought; %+v, %d cut",
						fell, row.WaitMS.Count, *o, row.Cut)
				}

				fateWrong := (o.GivenUp > 0) != c.givesUp || o.Late != o.GivenUp || (o.Backlog > 4) != c.behind
				if fateWrong || row.Seconds != measured.Seconds() {
					t.Errorf("%+v in %v s", *o, row.Seconds)
				}

				tooMany := o.Done > row.Bought || o.Done > row.WaitMS.Count || o.Done+o.Backlog > o.Due
				tooFew := !c.behind && o.Done+4 < row.Bought
				if tooMany || tooFew {
					t.Errorf("bought %d, %+v", row.Bought, *o)
				}

				longest := inMS(patience + c.service)
				if row.WaitMS.Max > longest || row.WaitMS.Mean < row.ServiceMS.Mean {
					t.Errorf("latency %+v, service %+v; nobody waits longer than %v ms",
						row.WaitMS, row.ServiceMS, longest)
				}

				if took := time.Since(start) - warmup - measured; took < 0 || took > patience+3*c.service {
					t.Errorf("it took %s after its measured time", took)
				}

				// two may list for one purchase
				if n := openStock - m.markets[0].missing.Load(); n < openStock-10 || n > openStock+1 {
					t.Errorf("%d listings at the end, want about %d", n, openStock)
				}
			})
		})
	}
}

// TestWarmupStandsStill: what fell due while the server stood still in the warm-up is
// made, counted by itself, and told; the row's own orders wait behind it, and their wait
// is counted from when they were due.
func TestWarmupStandsStill(t *testing.T) {
	const takes = 2 * time.Millisecond
	for name, c := range map[string]struct {
		stands time.Duration // at the end of the warm-up
		told   bool
	}{
		"not":                {},
		"a little":           {stands: 50 * time.Millisecond},
		"for half a second":  {stands: 500 * time.Millisecond, told: true},
		"most of the warmup": {stands: 900 * time.Millisecond, told: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, row := worked(t.Context(), opened(mix1x1, 100, time.Second, 10*time.Second),
				func(context.Context, market.Order) (market.Receipt, error) {
					if at := time.Since(start); at > time.Second-c.stands && at < time.Second {
						time.Sleep(time.Second - at)
					}
					time.Sleep(takes)
					return market.Receipt{}, nil
				})

			var free, due, longest time.Duration // when the buyer is free again
			var left, bought, of int64
			for s := (&schedule{rate: 100, seed: 3}); ; {
				due = s.take()
				if due >= 11*time.Second {
					break
				}
				free = max(free, due)
				if free > time.Second-c.stands && free < time.Second {
					free = time.Second
				}
				free += takes

				switch {
				case due < time.Second && free >= time.Second:
					left++
				case due >= time.Second:
					of++
					longest = max(longest, free-due)
					if free < 11*time.Second {
						bought++
					}
				}
			}

			o, w := row.Open, row.WaitMS
			if o.LeftOver != left || row.Bought != bought || o.Done != bought ||
				o.Due != of || w.Count != of {
				t.Errorf("%s: bought %d, %d waits, %+v; want %d left over, %d of %d bought",
					name, row.Bought, w.Count, *o, left, bought, of)
			}

			if w.Max != inMS(longest) || row.Purchases() != bought+left ||
				sum(row.PerBuyer) != row.Purchases() {
				t.Errorf("%s: waits %+v, want at most %s; %d made, %v",
					name, w, longest, row.Purchases(), row.PerBuyer)
			}

			n, told := warned(row, result.LeftOver)
			_, underway := warned(row, result.WarmupUnderway)
			if told != c.told || told && n != float64(left) || underway {
				t.Errorf("%s: %v, want it told %t of %d", name, row.Warnings, c.told, left)
			}
		})
	}
}

// TestWarmupsOrders: a row that makes only orders of the warm-up has bought
// none of its own, and says why.
func TestWarmupsOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(mix1x1, 30, time.Second, 4*time.Second)
		_, row := worked(t.Context(), c, lasting(400*time.Millisecond))
		early := (&schedule{rate: 30, seed: 3}).untaken(0, time.Second)

		// It had made two when the warm-up ended, and makes ten more in the measured time.
		n, _ := warned(row, result.LeftOver)
		_, nothing := warned(row, result.NothingBought)
		_, underway := warned(row, result.WarmupUnderway)
		warnedWrong := n != 10 || nothing || underway
		ordersWrong := row.Purchases() != 10 || row.Bought+row.Open.Done != 0 ||
			row.Open.Backlog != row.Open.Due
		if ordersWrong || warnedWrong || early < 20 {
			t.Errorf("bought %d, %+v, %v; %d were due in the warm-up",
				row.Bought, row.Open, row.Warnings, early)
		}
	})
}

// TestOpenLoopEnds: it ends early at the user's wish and at a failure, and its alarms
// with it; and when all are broke.
func TestOpenLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(mix5x5, 20, time.Second, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, row := worked(ctx, c, nil)
		due := (&schedule{rate: 20, seed: 3}).untaken(time.Second, 3*time.Second)
		want := result.OpenLoop{Due: due, Done: due}
		if row.Status != stored.Interrupted || *row.Open != want || row.Seconds != 2 {
			t.Errorf("%s after %v s, %+v, want %+v", row.Status, row.Seconds, *row.Open, want)
		}

		busy, end := context.WithTimeout(t.Context(), 3*time.Second)
		defer end()
		// Those that nobody came to are late.
		_, row = worked(busy, opened(mix1x1, 20, 0, time.Hour), lasting(time.Second))
		if o := row.Open; o.GivenUp > 0 || o.Late != o.Due-row.WaitMS.Count || o.Late < 20 {
			t.Errorf("%+v, %d bought", *o, row.WaitMS.Count)
		}

		n := 0
		thirdFails := func(context.Context, market.Order) (market.Receipt, error) {
			n++
			if n == 3 {
				return market.Receipt{}, errLost
			}
			return market.Receipt{}, nil
		}

		m, row := worked(t.Context(), opened(mix1x1, 20, 0, time.Hour), thirdFails)
		if row.Status != stored.Incomplete || !errors.Is(m.window.failure, errLost) ||
			row.Open.Done != 2 {
			t.Errorf("%s, %v, %+v", row.Status, m.window.failure, *row.Open)
		}

		_, row = worked(t.Context(), c, func(context.Context, market.Order) (market.Receipt, error) {
			time.Sleep(time.Second)
			return market.Receipt{}, market.ErrInsufficientFunds
		})
		_, broke := warned(row, result.AllBroke)
		someDone := row.Open != nil && row.Open.Done > 0
		if !broke || row.Status != stored.Complete || someDone {
			t.Errorf("%s, %v, %+v", row.Status, row.Warnings, row.Open)
		}
	})
}

// TestOpenBuyerAllocatesNothing: neither for an order nor for the time until it is due.
func TestOpenBuyerAllocatesNothing(t *testing.T) {
	m := fakeMeasurement(opened(mix1x1, 100_000, 0, time.Hour), nothing, nothing)
	m.window.begin(0, time.Hour)
	b := openBuyer{m, m.buyers[0], m.open.alarms(), nil}
	defer b.alarm.Close()

	orders := func() {
		for range 1_000 {
			b.next(t.Context())
		}
	}

	orders() // what grows once has grown
	if n := testing.AllocsPerRun(5, orders); n > 1 {
		t.Errorf("1,000 orders allocate %v times", n)
	}

	if n := b.w.tally.count; n[due] < 6_000 || n[bought] != n[due] || n[fulfilled] != n[due] {
		t.Errorf("%d orders are due, %d bought", n[due], n[bought])
	}
}

// TestStoppedServer stops the server for half a second in the middle of a row. In a
// closed loop the only buyer waits for it once, and the 99th percentile never hears of
// it. In an open loop all who wanted to buy meanwhile have waited.
func TestStoppedServer(t *testing.T) {
	for rate, p99 := range map[float64]float64{0: 5, 100: 450} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stopped := func(context.Context, market.Order) (market.Receipt, error) {
				if at := time.Since(start); at > 2*time.Second && at < 2500*time.Millisecond {
					time.Sleep(2500*time.Millisecond - at)
				}
				time.Sleep(5 * time.Millisecond)
				return market.Receipt{}, nil
			}

			_, row := worked(t.Context(), opened(mix1x1, rate, 0, 4*time.Second), stopped)
			if w := row.WaitMS; w.Max < 480 || w.Max > 505 || math.Abs(w.P99-p99) > p99/4 {
				t.Errorf("at a rate of %v: %+v, want a 99th percentile of about %v ms", rate, w, p99)
			}
		})
	}
}

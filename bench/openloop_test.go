package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// ordered is an open loop without a server, on a clock of its own: sellers list at once, and buyers buy as purchase does.
func ordered(ctx context.Context, c Config, purchase func(context.Context, market.Order) (market.Receipt, error),
) (*measurement, result.Row) {
	m := fakeMeasurement(c, nothing, func(*measurement) market.Purchaser { return fake{onPurchase: purchase} })
	m.open.alarms = alarm.NewTimer
	end := m.collector.run()
	m.work(ctx)
	end()
	return m, m.row()
}

// nearly reports whether a time in milliseconds is what was wanted, but for what a histogram rounds.
func nearly(got, want float64) bool { return math.Abs(got-want) <= 0.001+want/500 }

// TestLatencyFromIntendedStart holds the only buyer for a second in its first order. The nine that fall due meanwhile
// wait in the schedule, and their latency says so; their service time does not.
func TestLatencyFromIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c := Config{Mix: mix1x1, Duration: 10*time.Second + 50*time.Millisecond, Rate: 10, Arrivals: Constant}
		_, row := ordered(t.Context(), c, func(context.Context, market.Order) (market.Receipt, error) {
			if first {
				first = false
				time.Sleep(time.Second)
			}
			time.Sleep(10 * time.Millisecond)
			return market.Receipt{}, nil
		})
		// The k-th order is due after k x 100 ms. The first is done after 1,110 ms, the k-th of the next ten at
		// 1,100 + k x 10 ms: it has waited until then.
		var sum, service float64
		for k := 1; k <= 100; k++ {
			latency := 10.
			if done := 1100 + 10*float64(k); k <= 11 {
				latency = done - 100*float64(k)
			}
			sum += latency
			service += 10
		}
		o, w := row.Open, row.WaitMS
		if row.Bought != 100 || o.Backlog != 0 || o.GivenUp != 0 || !nearly(o.Offered, 100/10.05) || o.Reached != o.Offered {
			t.Errorf("bought %d, open loop %+v", row.Bought, *o)
		}
		if !nearly(w.Mean, sum/100) || !nearly(w.Max, 1010) || !nearly(w.P90, 110) || !nearly(w.P99, 920) {
			t.Errorf("latency %+v; want a mean of %v, p90 110, p99 920, at most 1010 ms", w, sum/100)
		}
		if s := o.ServiceMS; !nearly(s.Mean, (service+1000)/100) || !nearly(s.P99, 10) || !nearly(s.Max, 1010) {
			t.Errorf("service %+v; want a mean of %v, p99 10, at most 1010 ms", s, (service+1000)/100)
		}
	})
}

// TestOrdersAreAccountedFor: each order that fell due in the row bought something, was given up or is in the backlog,
// whatever the load; and those of the warm-up are none of them.
func TestOrdersAreAccountedFor(t *testing.T) {
	for name, c := range map[string]struct {
		rate    float64
		service time.Duration
		refused int // of ten tries
		givesUp bool
		behind  bool
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
				tries := 0
				config := Config{
					Mix: result.Mix{Sellers: 1, Buyers: 2}, Warmup: 5 * time.Second, Duration: 30 * time.Second, Rate: c.rate,
					Arrivals: Poisson, Seed: 3,
				}
				m, row := ordered(t.Context(), config, func(context.Context, market.Order) (market.Receipt, error) {
					time.Sleep(c.service)
					mu.Lock()
					defer mu.Unlock()
					if tries++; tries%10 < c.refused {
						return market.Receipt{}, market.ErrNotListed
					}
					return market.Receipt{}, nil
				})
				fell := (&schedule{arrivals: Poisson, rate: c.rate, seed: 3}).untaken(5*time.Second, 35*time.Second)
				o := row.Open
				if int64(math.Round(o.Offered*30)) != fell || row.Bought+o.GivenUp+o.Backlog != fell {
					t.Errorf("%d orders fell due; bought %d, %+v", fell, row.Bought, *o)
				}
				if (o.GivenUp > 0) != c.givesUp || (o.Backlog > 4) != c.behind && c.refused < 10 || row.Seconds != 30 {
					t.Errorf("%d given up, a backlog of %d in %v s", o.GivenUp, o.Backlog, row.Seconds)
				}
				if made := math.Round(o.Reached * 30); made > float64(row.Bought) || made+2 < float64(row.Bought) {
					t.Errorf("bought %d, reached %v/s: more than both buyers bought after the end", row.Bought, o.Reached)
				}
				if row.Bought > 0 && (row.Bought != *o.ServiceMS.Count || row.Bought != *row.WaitMS.Count) {
					t.Errorf("bought %d, %d service times", row.Bought, *o.ServiceMS.Count)
				}
				if sum(row.Series.Purchases) != row.Bought {
					t.Errorf("bought %d, and %d in the series", row.Bought, sum(row.Series.Purchases))
				}
				longest := float64((patience + c.service).Milliseconds())
				if row.WaitMS.Max > longest*1.001 || row.WaitMS.Mean+0.001 < o.ServiceMS.Mean {
					t.Errorf("latency %+v, service %+v; nobody waits longer than %v ms", row.WaitMS, o.ServiceMS, longest)
				}
				if n := m.markets[0].stock.listings.Load(); n < enoughStock-10 || n > enoughStock {
					t.Errorf("%d listings at the end, want about %d", n, enoughStock)
				}
			})
		})
	}
}

// TestOpenLoopEnds: it ends early at the user's wish and at a failure, and its alarms with it.
func TestOpenLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		c := Config{Mix: mix5x5, Warmup: time.Second, Duration: time.Hour, Rate: 0.5, Arrivals: Constant}
		m, row := ordered(ctx, c, nil)
		if row.Status != result.Interrupted || row.Bought != 1 || row.Open.Backlog != 0 || row.Seconds != 2 {
			t.Errorf("%s after %v s, bought %d, %+v", row.Status, row.Seconds, row.Bought, *row.Open)
		}
		if err := m.failure(); err != nil {
			t.Error(err)
		}
		n := 0
		m, row = ordered(t.Context(), c, func(context.Context, market.Order) (market.Receipt, error) {
			if n++; n == 3 {
				return market.Receipt{}, errLost
			}
			return market.Receipt{}, nil
		})
		if row.Status != result.Incomplete || !errors.Is(m.failure(), errLost) || row.Bought != 2 || row.Open.Backlog != 0 {
			t.Errorf("%s, %v, bought %d, %+v", row.Status, m.failure(), row.Bought, *row.Open)
		}
	})
}

// TestWithoutStock: the time is counted in which nothing is listed.
func TestWithoutStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stock
		done, watched := make(chan struct{}), make(chan struct{})
		go func() { defer close(watched); s.watch(done) }()
		for _, listings := range []int64{0, 7, -1, 1} {
			s.listings.Store(listings)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		close(done)
		<-watched
		if got := time.Duration(s.without.Load()); got < 2*time.Second-2*stockWatch || got > 2*time.Second+2*stockWatch {
			t.Errorf("%s without stock, want 2 s", got)
		}
	})
}

// TestOpenBuyerAllocatesNothing: neither for an order nor for the time until it is due.
func TestOpenBuyerAllocatesNothing(t *testing.T) {
	m := fakeMeasurement(Config{Mix: mix1x1, Rate: 1000, Arrivals: Poisson}, nothing, nothing)
	m.open.begin(m)
	b := m.open.buyers[0]
	defer b.alarm.Close()
	orders := func() {
		for range 1_000 {
			m.open.schedule.take()
			due := time.Now().Add(time.Microsecond)
			b.await(due)
			b.order(t.Context(), due, true)
			b.worker.recorder.collector.drain()
		}
	}
	orders() // what grows once has grown
	if n := testing.AllocsPerRun(5, orders); n > 1 {
		t.Errorf("1,000 orders allocate %v times", n)
	}
	if b.done < 6_000 || b.worker.recorder.count[bought] != b.done {
		t.Errorf("%d orders are done, %d bought", b.done, b.worker.recorder.count[bought])
	}
}

// TestStoppedServer stops the server for half a second in the middle of a row. In a closed loop the only buyer waits
// for it once, and the 99th percentile never hears of it. In an open loop all who wanted to buy meanwhile have waited.
// A busy machine may stop, too, and leave few purchases: then the rows are longer.
func TestStoppedServer(t *testing.T) {
	const stopped, rate = 500 * time.Millisecond, 100
	const half = float64(stopped / time.Millisecond)
	s := testkit.Local(t)
	for length := 4 * time.Second; ; length *= 2 {
		c := config(t, s, nil)
		c.Purchases, c.Duration = 0, length
		closed, closedStopped := stoppedFor(t, s, c, stopped)
		c.Rate, c.Arrivals = rate, Constant
		open, openStopped := stoppedFor(t, s, c, stopped)
		t.Logf("closed: %d purchases, p99 %v ms, longest %v ms; open: %d purchases, p99 %v ms, longest %v ms",
			closed.Bought, closed.WaitMS.P99, closed.WaitMS.Max, open.Bought, open.WaitMS.P99, open.WaitMS.Max)
		if closedStopped && openStopped && closed.WaitMS.Max >= half/2 && open.WaitMS.Max >= half/2 &&
			closed.WaitMS.P99 <= half/2 && open.WaitMS.P99 >= half*3/4 && open.WaitMS.P99 >= 2*closed.WaitMS.P99 {
			return
		}
		if length > 10*time.Second {
			t.Fatalf("the closed loop was stopped: %t, the open one: %t; 99th percentile %v ms in the closed loop, %v ms in the open one",
				closedStopped, openStopped, closed.WaitMS.P99, open.WaitMS.P99)
		}
	}
}

// stoppedFor measures a row whose server is stopped for a while in its second half, and reports whether it was.
func stoppedFor(t *testing.T, s *backend.Server, c Config, length time.Duration) (row result.Row, stopped bool) {
	t.Helper()
	var once sync.Once
	resumed := make(chan struct{})
	begun := time.Now()
	c.Subject = onPurchase(t, "fine", func(next attempt) (market.Receipt, error) {
		if time.Since(begun) > c.Duration/2 {
			once.Do(func() {
				stopped = true
				pause(t, s)
				time.AfterFunc(length, func() { defer close(resumed); resume(t, s) })
			})
		}
		return next()
	})
	row, err := Run(t.Context(), c)
	if err != nil || row.Status != result.Complete || !row.Audit.OK {
		t.Fatalf("%s, %v, audit %+v", row.Status, err, row.Audit)
	}
	if stopped {
		<-resumed
	}
	return row, stopped
}

func pause(t *testing.T, s *backend.Server) {
	if err := s.Pause(); err != nil {
		t.Error(err)
	}
}

func resume(t *testing.T, s *backend.Server) {
	if err := s.Resume(); err != nil {
		t.Error(err)
	}
}

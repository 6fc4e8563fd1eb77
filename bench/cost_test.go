package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// TestCostOfWorkInVain: each purchase is aborted once before it is applied, and each item is first ordered at a wrong
// price. A try of watch is WATCH; ZSCORE; HGET; MULTI to EXEC: 9 commands in 4 round trips. One that is refused is
// WATCH; ZSCORE; HGET; UNWATCH.
func TestCostOfWorkInVain(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		other, disturbed := testkit.Dial(t, s), false
		c.steps = func(r Role) step.Observer {
			return func(ctx context.Context, at step.Name) {
				if r != Buyer || at != step.BeforeWrite {
					return
				}
				if disturbed = !disturbed; disturbed {
					other.ZAdd(ctx, c.Keys.Market(), redis.Z{Member: "0.0"})
					other.ZRem(ctx, c.Keys.Market(), "0.0")
				}
			}
		}
		workers := connected(t, c)
		defer workers.Close()
		if err := workers.sellers[0].List(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, w := newMeasurement(workers), workers.buyers[0]
		orders, err := w.Browse(t.Context())
		if err != nil || len(orders) != 1 {
			t.Fatalf("%d listings, %v; want 1", len(orders), err)
		}
		dear := orders[0]
		dear.Price++
		if err := w.Purchase(t.Context(), dear); !errors.Is(err, market.ErrPriceChanged) {
			t.Fatalf("an order at a wrong price: %v", err)
		}
		if err := w.Purchase(t.Context(), orders[0]); err != nil {
			t.Fatal(err)
		}
		m.stop.set(result.Complete, nil)
		row := m.row()
		for _, c := range []struct {
			name     string
			got      result.Bill
			rt, cmds float64
		}{
			{"all", row.Cost.Market, 4 + 4 + 4, 9 + 9 + 4},
			{"in vain", *row.Cost.Aborted, 4 + 4, 9 + 4},
		} {
			if c.got.RoundTrips != c.rt || c.got.Commands != c.cmds || c.got.BytesSent < 100 || c.got.BytesReceived < 40 {
				t.Errorf("%s: %+v, want %v round trips, %v commands, and some bytes each way", c.name, c.got, c.rt, c.cmds)
			}
		}
		if sum := row.Cost.Market.BytesSent + row.Cost.Market.BytesReceived; sum != *row.BytesPerPurchase {
			t.Errorf("%v bytes sent and received, %v together", sum, *row.BytesPerPurchase)
		}
		if row.Cost.LockServers != nil || row.TimeMS.Thrown <= 0 || row.TimeMS.Rest <= 0 || row.TimeMS.LockHold != 0 {
			t.Errorf("lock servers %+v, time %+v", row.Cost.LockServers, row.TimeMS)
		}
	})
}

// TestSplitAddsUp: with every strategy, the parts of the mean time of a purchase add up to the mean wait.
func TestSplitAddsUp(t *testing.T) {
	s := testkit.Local(t)
	for name, has := range map[string]func(result.Split) bool{
		"watch":       func(s result.Split) bool { return s.LockWait == 0 && s.LockHold == 0 },
		"coarse":      func(s result.Split) bool { return s.LockWait > 0 && s.LockHold > 0 && s.Thrown == 0 },
		"fine":        func(s result.Split) bool { return s.LockWait > 0 && s.LockHold > 0 && s.Thrown == 0 },
		"fine-wallet": func(s result.Split) bool { return s.LockWait > 0 && s.LockHold > 0 && s.Thrown == 0 },
		"unsafe":      func(s result.Split) bool { return s.LockWait == 0 && s.LockHold == 0 && s.Thrown == 0 },
	} {
		c := config(t, s, spec(t, name))
		c.Mix, c.Purchases = mix5x5, 100
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		p, mean := *row.TimeMS, row.WaitMS.Mean
		if sum := p.LockWait + p.LockHold + p.Thrown + p.Rest; math.Abs(sum-mean) > 0.001+mean/1000 {
			t.Errorf("%s: %+v adds up to %v ms, the mean wait is %v ms", name, p, sum, mean)
		}
		if !has(p) || p.Rest <= 0 {
			t.Errorf("%s: %+v holds what it should not, or lacks what it should have", name, p)
		}
	}
}

// TestSplitOfAnOpenLoop: there, too, the parts add up to the mean wait, which begins when an order was due.
func TestSplitOfAnOpenLoop(t *testing.T) {
	c := config(t, testkit.Local(t), spec(t, "fine"))
	c.Mix, c.Purchases, c.Duration, c.Rate, c.Arrivals = result.Mix{Sellers: 2, Buyers: 2}, 0, time.Second, 100, Poisson
	row, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, mean := *row.TimeMS, row.WaitMS.Mean
	if sum := p.LockWait + p.LockHold + p.Thrown + p.Rest; math.Abs(sum-mean) > 0.001+mean/1000 {
		t.Errorf("%+v adds up to %v ms, the mean wait is %v ms", p, sum, mean)
	}
	if p.LockHold <= 0 || p.LockHold > row.Open.ServiceMS.Mean || row.Little != nil {
		t.Errorf("%+v of %v ms of service, %+v", p, row.Open.ServiceMS.Mean, row.Little)
	}
}

// TestFairness: the second buyer buys half as fast as the first. The first buys at 2, 4, 6, 8 and, because a purchase
// under way is finished, 10 s; the second at 4, 8 and 12.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		m := fakeMeasurement(Config{Mix: result.Mix{Sellers: 1, Buyers: 2}, Duration: 9 * time.Second},
			func(m *measurement) market.Purchaser { return fake{onList: untouched(m)} },
			func(*measurement) market.Purchaser {
				n++
				return fake{onPurchase: lasting(time.Duration(n) * 2 * time.Second)}
			})
		m.work(t.Context())
		got, want := *m.row().Fairness, result.Fairness{Jain: 64.0 / 68, Fewest: 3, Most: 5, LongestGapSeconds: 4}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestGap(t *testing.T) {
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name   string
		bought []int // seconds after the start of a row of 10 s
		want   int
	}{
		{"nothing", nil, 10}, {"late", []int{7, 8}, 7}, {"early", []int{1, 2}, 8}, {"between", []int{2, 7, 9}, 5},
		{"after the end", []int{5, 13}, 8},
	} {
		var s spent
		for _, at := range c.bought {
			s.bought(start.Add(time.Duration(at) * time.Second))
		}
		if got := s.gap(start, start.Add(10*time.Second)); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: %s, want %d s", c.name, got, c.want)
		}
	}
}

// TestLittle: of 2 s each, every second order is refused. Browsing takes no time, so that the buyer is busy with orders
// alone, and the row's times say so. Where purchases take 90 s, of which 60 are recorded, they do not.
func TestLittle(t *testing.T) {
	for _, c := range []struct {
		takes, row time.Duration
		want       float64
		warned     bool
	}{
		{2 * time.Second, 100 * time.Second, 1, false},
		{90 * time.Second, 900 * time.Second, 60.0 / 90, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			row := alone(t.Context(), Config{Duration: c.row},
				func(context.Context, market.Order) (market.Receipt, error) {
					time.Sleep(c.takes)
					if n++; n%2 == 0 {
						return market.Receipt{}, market.ErrNotListed
					}
					return market.Receipt{}, nil
				})
			l := row.Little // the last order ends after the row, and counts in both
			if l == nil || l.BusyBuyers < 1 || l.BusyBuyers > 1.1 ||
				math.Abs(l.ThroughputTimesTime/l.BusyBuyers-c.want) > 0.001 {
				t.Errorf("orders of %s: %+v, want 1 busy buyer, and the other over it %v", c.takes, l, c.want)
			}
			warned := strings.Contains(strings.Join(row.Warnings, "\n"), "off what buyers were busy for")
			if warned != c.warned {
				t.Errorf("orders of %s: warnings %q", c.takes, row.Warnings)
			}
		})
	}
}

// TestLittleHoldsInARow measures real rows, in which buyers browse, come too late, and find nothing listed. What is cut
// off at the ends of a row weighs more on a busy machine, and less in a longer row.
func TestLittleHoldsInARow(t *testing.T) {
	s := testkit.Local(t)
	for _, name := range []string{"watch", "fine"} {
		for length := time.Second; ; length *= 4 {
			c := config(t, s, spec(t, name))
			c.Mix, c.Purchases, c.Duration, c.Warmup = result.Mix{Sellers: 1, Buyers: 8}, 0, length, 100*time.Millisecond
			row, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			l := row.Little
			if l != nil && math.Abs(l.ThroughputTimesTime/l.BusyBuyers-1) <= littleOff && l.BusyBuyers <= 9 {
				break
			}
			if length > 10*time.Second {
				t.Fatalf("%s: %+v; want the two within %v, and 8 buyers", name, l, littleOff)
			}
		}
	}
}

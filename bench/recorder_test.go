package bench

import (
	"bytes"
	"context"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// purchasing is how a fake makes a purchase.
type purchasing func(context.Context, market.Order) (market.Receipt, error)

// lasting is a purchase of a given length, on synctest's clock: it takes exactly as long as it sleeps.
func lasting(d time.Duration) purchasing {
	return func(context.Context, market.Order) (market.Receipt, error) {
		time.Sleep(d)
		return market.Receipt{}, nil
	}
}

// alone works a row of one buyer, beside a seller that does nothing.
func alone(ctx context.Context, c Config, purchase purchasing) result.Row {
	c.Mix = mix1x1
	m := fakeMeasurement(c,
		func(m *measurement) market.Purchaser { return fake{onList: untouched(m)} },
		func(*measurement) market.Purchaser { return fake{onPurchase: purchase} })
	defer m.collector.run()()
	m.work(ctx)
	return m.row()
}

// TestCounted: of purchases of 3 s each, those started at 12, 15 and 18 s are counted when the row lasts from 10 to
// 20 s. The one that started at 9 s belongs to the warm-up, and the one in flight at 20 s is finished.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		row := alone(t.Context(), Config{Warmup: 10 * time.Second, Duration: 10 * time.Second}, lasting(3*time.Second))
		if row.Status != result.Complete || row.Seconds != 10 || row.Bought != 3 || row.PurchasesPerSecond != 0.3 {
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
		collected := newCollector()
		collected.begin(from)
		r, l := newRecorder(collected, 1), newRecorder(collected, 1)
		start := from.Add(c.start)
		end, receipt := start.Add(time.Minute), market.Receipt{Retries: 2, Polls: 5, ReleasesFailed: 3}
		cost := traffic{market: backend.Counts{RoundTrips: 4, Commands: 9}, lockServers: backend.Counts{BytesReceived: 7}}
		r.purchased(start, start, end, market.Order{Buyer: 1}, cost, receipt, nil)
		l.listed(start, end, market.Listing{Item: 1, Seller: 1}, receipt, nil)
		took, tries, _ := collected.totals()
		got := [...]int64{
			r.count[bought], r.count[retries] / 2, r.count[polls] / 5, r.count[failedReleases] / 3,
			r.traffic.market.RoundTrips / 4, r.traffic.market.Commands / 9, r.traffic.lockServers.BytesReceived / 7,
			took[purchaseWait].TotalCount(), took[lockWait].TotalCount(), tries.TotalCount(), tries.Max() / 8,
			l.count[listed], l.count[listRetries] / 2, l.count[polls] / 5, took[listWait].TotalCount(),
		}
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
		if row.Status != result.Interrupted || row.Seconds != 4 || row.Bought != 2 {
			t.Errorf("%s, %d purchases in %v s; want interrupted, 2 in 4 s", row.Status, row.Bought, row.Seconds)
		}
	})
}

// TestGrace: an operation that would never end is cut off, and its outcome is unknown.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		endless := func(ctx context.Context, _ market.Order) (market.Receipt, error) {
			<-ctx.Done()
			return market.Receipt{}, ctx.Err()
		}
		row := alone(t.Context(), Config{Duration: time.Second}, endless)
		if took := time.Since(start); took != time.Second+leastGrace {
			t.Errorf("took %s, want a second and the grace of %s", took, leastGrace)
		}
		if row.Bought != 0 || row.Unknown != 1 || row.Seconds != 1 {
			t.Errorf("bought %d, %d unknown in %v s; want 0, 1, 1 s", row.Bought, row.Unknown, row.Seconds)
		}
	})
}

// TestRoundTrips: what a purchase costs when nobody is in the way, and that the driver counts neither more nor less. A
// seller lists, and when it has ended a buyer buys.
//
//   - watch: WATCH; ZSCORE; HGET; MULTI, HINCRBY, HINCRBY, SADD, ZREM, EXEC, which ends the watch.
//   - unsafe: ZSCORE; HGET; HGET; HSET; HSET; SADD; ZREM.
//   - coarse, fine: SETNX; MULTI, ZSCORE, HGET, EXEC; MULTI and the four writes, EXEC; and the release as printed:
//     WATCH; GET; MULTI, DEL, EXEC.
//   - fine-wallet: a second SETNX and a second release.
func TestRoundTrips(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, want := range []struct {
			strategy             string
			roundTrips, commands float64
		}{
			{"watch", 4, 9}, {"unsafe", 7, 7}, {"coarse", 6, 16}, {"fine", 6, 16}, {"fine-wallet", 10, 22},
		} {
			c := config(t, s, spec(t, want.strategy))
			c.Purchases = 30
			row := inTurn(t, c)
			if row.Bought != 30 || row.Polls != 0 || row.Retries != 0 || row.Gone != 0 {
				t.Errorf("%s: bought %d, polls %d, retries %d, gone %d; want 30 and nobody in the way",
					want.strategy, row.Bought, row.Polls, row.Retries, row.Gone)
			}
			if row.RoundTripsPerPurchase != want.roundTrips || row.CommandsPerPurchase != want.commands {
				t.Errorf("%s: %v round trips and %v commands a purchase, want %v and %v", want.strategy,
					row.RoundTripsPerPurchase, row.CommandsPerPurchase, want.roundTrips, want.commands)
			}
		}
	})
}

// inTurn runs a row of 1x1 in which the buyer starts when the seller has ended.
func inTurn(t *testing.T, c Config) result.Row {
	t.Helper()
	workers := connected(t, c)
	for range 100 {
		if err := workers.sellers[0].List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	workers.sellers[0].recorder = newRecorder(workers.collector, 2) // only what the buyer does is looked at
	m := newMeasurement(workers)
	m.buy(t.Context(), workers.buyers[0])
	if err := workers.Close(); err != nil {
		t.Error(err)
	}
	return m.row()
}

// TestHistograms: what is stored tells the same as the numbers beside it.
func TestHistograms(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		c.Mix, c.Purchases = mix5x5, 300
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []struct {
			name, stored string
			count        int64
			beside       result.Latency
		}{
			{"purchase", row.Histograms.Purchase, row.Bought, row.WaitMS},
			{"list", row.Histograms.List, row.Listed, row.ListMS},
		} {
			decoded, err := hdrhistogram.Decode([]byte(h.stored))
			if err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			if decoded.TotalCount() != h.count || h.count == 0 {
				t.Errorf("%s: %d recorded, want %d", h.name, decoded.TotalCount(), h.count)
			}
			if got := latency(decoded); !reflect.DeepEqual(got, h.beside) {
				t.Errorf("%s: stored %+v, beside it %+v", h.name, got, h.beside)
			}
		}
		if w := row.WaitMS; w.P50 <= 0 || w.P50 > w.P90 || w.P90 > w.P99 || w.P99 > w.P999 ||
			w.P999 > w.Max || w.Mean > w.Max {
			t.Errorf("waits out of order: %+v", w)
		}
	})
}

// TestRoundTrip: a row as it was measured, and one with everything in it, are read as they were written.
func TestRoundTrip(t *testing.T) {
	s := testkit.Embedded(t)
	measured, err := Run(t.Context(), config(t, s, spec(t, "watch")))
	if err != nil {
		t.Fatal(err)
	}
	holds := true
	full := result.Row{
		Strategy: "fine:poll=2ms", Sellers: 5, Buyers: 1, Trial: 3, Status: result.Incomplete, Seconds: 9.75,
		Listed: math.MaxInt64, Refused: map[string]int64{"not_listed": 1},
		PerBuyer: []int64{1, 0}, Warnings: []string{"<&> \"quoted\""},
		Audit:  result.Audit{Done: true, Problems: []string{"item 1 is nowhere"}},
		WaitMS: result.Latency{Mean: 0.1, P999: 1e-9},
	}
	want := &result.Run{
		Schema: result.Schema, Status: result.Interrupted, Rows: []result.Row{measured, full},
		Claims: []result.Claim{{ID: 1, Holds: &holds}, {ID: 2}},
		Manifest: result.Manifest{
			Backend: "local", ServerConfig: map[string]string{"save": ""}, Seed: math.MaxUint64, Started: time.Unix(1, 2).UTC(),
		},
	}
	var file bytes.Buffer
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := result.ReadRun(&file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

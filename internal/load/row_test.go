package load

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// TestNearestRank: the percentile of a histogram is that of its sorted values,
// at the rank rounded up.
func TestNearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Below 256 us a histogram keeps values exactly.
		values := rapid.SliceOfN(rapid.Int64Range(1, 250), 1, 3000).Draw(t, "values")
		d := newDurations()
		for _, us := range values {
			d.note(time.Duration(us) * time.Microsecond)
		}

		slices.Sort(values)
		for _, perMille := range []int64{1, 500, 900, 990, 999, 1000} {
			exceeded := 0 // how many values must not exceed the percentile
			for int64(exceeded)*1000 < perMille*int64(len(values)) {
				exceeded++
			}
			if got, want := nearestRank(d.histogram, perMille), values[exceeded-1]; got != want {
				t.Errorf("%d per mille of %d values: %d, want the one of rank %d, which is %d",
					perMille, len(values), got, exceeded, want)
			}
		}
	})

	// If the rank is no whole number and its fraction is below a half, the
	// library takes the value before.
	d := newDurations()
	for us := range 160 {
		d.note(time.Duration(us+1) * time.Microsecond)
	}
	if p99 := latency(&d).P99; p99 != 0.159 || d.histogram.ValueAtQuantile(99) != 158 {
		t.Errorf("p99 of 1 to 160 us: %v ms, and by the library %d us",
			p99, d.histogram.ValueAtQuantile(99))
	}
}

// TestTallies: sums, histograms and what is the longest of two workers are
// those of one who did all.
func TestTallies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow()
		w.begin(0, time.Hour)
		kinds := []kind{purchaseTime, refusedTime, lockWaitTime, listTime}
		first, second, whole := newTally(w, kinds...), newTally(w, kinds...), newTally(w, kinds...)

		for range rapid.IntRange(0, 200).Draw(t, "operations") {
			at := rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, "start")
			s := span{at, at, at + rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "takes")}
			err := rapid.SampledFrom([]error{
				nil, nil, market.ErrNotListed, market.ErrContended, errLost,
			}).Draw(t, "ends")
			r := market.Receipt{
				Retries:   1,
				Polls:     2,
				LockWait:  time.Duration(s.end-s.start) / 2,
				LockHold:  3,
				LeaseLost: err == nil,
			}
			cost := traffic{
				market:      redisconn.Counts{Commands: 9},
				lockServers: redisconn.Counts{BytesSent: 5},
			}

			for _, t := range []*tally{rapid.SampledFrom([]*tally{first, second}).Draw(t, "worker"), whole} {
				if at%2 == 0 {
					t.listed(s, r, err)
				} else {
					t.ordered(s, cost, r, err)
				}
			}
		}

		first.add(second)
		for k := range whole.took {
			got, want := first.took[k], whole.took[k]
			sumsDiffer := got.sum != want.sum || got.longest != want.longest || got.clipped != want.clipped
			if sumsDiffer || want.histogram != nil && !got.histogram.Equals(want.histogram) {
				t.Errorf("%d: %+v, want %+v", k, got, want)
			}
			// Compared: DeepEqual below would see more of the histograms than what they hold.
			first.took[k], whole.took[k] = durations{}, durations{}
		}

		if !equalCourses(&first.course, &whole.course) {
			t.Errorf("the courses differ: %+v, want %+v", first.course, whole.course)
		}
		first.course, whole.course = course{}, course{}
		if !reflect.DeepEqual(first, whole) {
			t.Errorf("%+v, want %+v", first, whole)
		}
	})
}

// Orders that gave up are told from listings that did: of more than all orders
// nobody can give up.
func TestContendedOrders(t *testing.T) {
	w := newWindow()
	w.begin(0, time.Hour)
	count, s := newTally(w, purchaseTime, serviceTime, refusedTime, lockWaitTime, listTime),
		span{0, 0, 1}

	for range 3 {
		count.listed(s, market.Receipt{}, market.ErrContended)
	}
	count.ordered(s, traffic{}, market.Receipt{}, market.ErrContended)
	count.ordered(s, traffic{}, market.Receipt{}, nil)

	var r result.Row
	(&measurement{markets: []*rowMarket{new(rowMarket)}}).fill(&r, count)
	metric := runs.MetricByName("given_up_share")
	if share := metric.Of(&r); r.Refused["contended"] != 4 ||
		r.ContendedOrders() != 1 || share != 0.5 {
		t.Errorf("%d of %v gave up, a share of %v; want 1 order of 2",
			r.ContendedOrders(), r.Refused, share)
	}
}

// TestMemory: 1,000 workers take less than 150 MB.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := fakeMeasurement(plan{
		Point:   result.Point{Mix: result.Mix{Sellers: 1, Buyers: 999}, Load: result.Load{Rate: 1}},
		Options: Options{Duration: time.Hour},
	}, nothing, nothing)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 150 || len(m.buyers) != 999 {
		t.Errorf("they take %d MB", took)
	}
}

// TestHistogram: what is stored tells the same as the numbers beside it, and is
// read as it was written.
func TestHistogram(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	c := config(t, s, spec(t, "fine"))
	c.Mix = mix5x5
	c.buys(300)
	row := testkit.Must(c.run(t.Context()))(t)

	decoded := testkit.Must(hdrhistogram.Decode([]byte(row.Histogram)))(t)
	p99 := float64(nearestRank(decoded, 990)) / 1000
	if decoded.TotalCount() != row.WaitMS.Count || min(p99, row.WaitMS.Max) != row.WaitMS.P99 {
		t.Errorf("%d recorded with a p99 of %v ms, beside it %+v", decoded.TotalCount(), p99, row.WaitMS)
	}

	if row.Commands == nil || *row.Commands < row.Market.Commands {
		t.Errorf("%v commands of all workers, and %+v of purchases", row.Commands, row.Market)
	}

	w := row.WaitMS
	ascending := slices.IsSorted([]float64{w.P50, w.P90, w.P99, w.P999, w.Max})
	if w.Count != 300 || w.P50 <= 0 || !ascending || w.Mean > w.Max {
		t.Errorf("waits out of order: %+v", w)
	}

	want := &runs.Run{Schema: runs.Schema, Status: stored.Complete, Rows: []result.Row{row}}
	var file bytes.Buffer
	testkit.Succeeds(t, want.Write(&file))
	if got, err := runs.Read(&file); err != nil || !reflect.DeepEqual(got.Rows, want.Rows) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

// TestNothingBought: a row without a purchase has a warning, unless the buyers could not
// pay. A strategy that bought nothing in any of its rows has failed, unless sellers were
// faster or its rows too short.
func TestNothingBought(t *testing.T) {
	refused := func(err error) map[string]int64 { return map[string]int64{market.Reason(err): 1} }

	for name, c := range map[string]struct {
		row       result.Row
		fails, is bool
	}{
		"bought":       {row: result.Row{Seconds: 1, Bought: 1}},
		"no reason":    {result.Row{Seconds: 1}, true, true},
		"out of coins": {row: result.Row{Seconds: 1, Refused: refused(market.ErrInsufficientFunds)}},
		"too short":    {result.Row{Seconds: 0.5}, false, true},
		"sellers are faster": {
			result.Row{Seconds: 1, Refused: refused(market.ErrContended)},
			false, true,
		},
		"locks are not freed": {
			result.Row{Seconds: 1, Refused: refused(market.ErrContended), FailedReleases: 1},
			true, true,
		},
		"leases are too short": {
			result.Row{Seconds: 1, Refused: refused(market.ErrLockLost)},
			true, true,
		},
		"nothing was due": {row: result.Row{Seconds: 1, Open: &result.OpenLoop{}}},
		"only buyers": {
			result.Row{
				Seconds: 1,
				Refused: refused(market.ErrContended),
				Point:   result.Point{Load: result.Load{Hot: 1}},
			},
			true, true,
		},
	} {
		row := c.row
		// Sellers are no excuse where nothing was listed.
		row.Strategy, row.Status, row.Listed = "some", stored.Complete, 9
		if withoutPurchase(&row) != c.is {
			t.Errorf("%s: %t, want %t", name, !c.is, c.is)
		}

		other := result.Row{Point: result.Point{Strategy: "other"}, Status: stored.Complete, Bought: 1}
		err := NothingBought([]result.Row{row, other}, enough)
		if errors.Is(err, ErrNothingBought) != c.fails {
			t.Errorf("%s: %v; want an error %t", name, err, c.fails)
		}

		other.Strategy = row.Strategy
		if err := NothingBought([]result.Row{row, other}, enough); err != nil {
			t.Errorf("%s, and a round with a purchase: %v", name, err)
		}
	}

	stoodStill := result.Row{
		Point:   result.Point{Strategy: "some"},
		Status:  stored.Complete,
		Seconds: 3,
	}
	if err := NothingBought([]result.Row{stoodStill}, enough/2); err != nil {
		t.Errorf("a short row on a machine that stood still: %v", err)
	}
}

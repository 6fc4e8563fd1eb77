package load

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// told are the rows so far of which Progress was told, and the row at the end. Two buyers
// buy as purchase does, after a second of warm-up for ten seconds, in intervals of half a
// second.
func told(ctx context.Context, purchase purchasing) (soFar []result.Row, r result.Row) {
	c := plan{Point: result.Point{Mix: result.Mix{Sellers: 1, Buyers: 2}}}
	c.Options = Options{Warmup: time.Second, Duration: 10 * time.Second, Trial: 3}
	c.Progress = func(r result.Row) { soFar = append(soFar, r) }
	_, r = worked(ctx, c, purchase)
	return soFar, r
}

// TestProgress: the row so far is told when the load begins and at the end of each interval,
// as the row is stored in the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended int64
		soFar, r := told(t.Context(), func(context.Context, market.Order) (market.Receipt, error) {
			took := 20 * time.Millisecond
			if time.Since(began) > 6*time.Second { // the second half is slower
				took = 170 * time.Millisecond
			}
			time.Sleep(took)
			atomic.AddInt64(&ended, 1)
			return market.Receipt{}, nil
		})
		if len(soFar) != 21 || len(r.Course) != 20 || sum(r.Course) != r.Bought {
			t.Fatalf("told %d times of %d intervals, in which %d were bought of %d",
				len(soFar), len(r.Course), sum(r.Course), r.Bought)
		}
		first := soFar[0]
		if first.Trial != 3 || !first.Began.Equal(began.Add(time.Second)) ||
			len(first.Course) > 0 || first.Mix != r.Mix {
			t.Errorf("the load begins with %+v", first)
		}

		for i, s := range soFar[1:] {
			same := slices.Equal(s.Course, r.Course[:i+1]) &&
				slices.Equal(s.CourseP50MS, r.CourseP50MS[:i+1]) &&
				slices.Equal(s.CourseP99MS, r.CourseP99MS[:i+1]) &&
				s.CourseSeconds == r.CourseSeconds
			if !same || s.Seconds != 0.5*float64(i+1) || s.Bought != sum(s.Course) || s.Began != r.Began {
				t.Errorf("after interval %d it is told %+v", i+1, s)
			}
		}
		// Latencies are at most 1/16 too high, and no higher than the longest.
		if r.CourseP50MS[3] < 20 || r.CourseP50MS[3] > 21.25 ||
			r.CourseP99MS[18] < 170 || r.CourseP99MS[18] > 181 {
			t.Errorf("p50 %v, p99 %v", r.CourseP50MS, r.CourseP99MS)
		}
		last := soFar[20]
		if p99 := last.WaitMS.P99; p99 < r.WaitMS.P99 || p99 > r.WaitMS.P99*17/16 {
			t.Errorf("the p99 so far is %v, and in the end %v", p99, r.WaitMS.P99)
		}
	})
}

// TestProgressInterrupted: the interval in which a row is stopped is told, and none after it;
// a row that is stopped in its warm-up has none.
func TestProgressInterrupted(t *testing.T) {
	for after, want := range map[time.Duration]string{
		500 * time.Millisecond:  "0 in 0 s",
		3200 * time.Millisecond: "5 in 2.2 s",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), after)
			defer stop()
			soFar, r := told(ctx, lasting(70*time.Millisecond))

			last := soFar[len(soFar)-1]
			got := fmt.Sprintf("%d in %v s", len(last.Course), last.Seconds)
			asStored := slices.Equal(last.Course, r.Course) && last.Seconds == r.Seconds
			if r.Status != stored.Interrupted || got != want || !asStored {
				t.Errorf("stopped after %s: told %s, want %s; the row has %v of %v s",
					after, got, want, r.Course, r.Seconds)
			}
		})
	}
}

// TestProgressIsExact: what a worker is still noting when an interval is over belongs to what
// is told of it. The worker is held between the end of its purchase and its note.
func TestProgressIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow()
		w.begin(0, 10*time.Second)
		buyer := &worker{records: records{tally: newTally(w, purchaseTime)}}
		buyer.noting.Store(true)

		// The purchase ends with the first interval, and is noted when that is over.
		ended := w.at(time.Now()) + int64(w.interval()) - 1
		time.Sleep(time.Duration(w.interval()))
		go func() {
			time.Sleep(3 * endLooks)
			buyer.tally.ordered(span{0, 0, ended}, traffic{}, market.Receipt{}, nil)
			buyer.noting.Store(false)
		}()

		buyer.settle()
		if n := buyer.tally.course[0].histogram.TotalCount(); n != 1 {
			t.Errorf("%d purchases in the interval, want the one that was being noted", n)
		}
	})
}

// TestNotingBeforeTheEnd: whoever saw that a worker was not noting finds each purchase noted that
// ended before.
func TestNotingBeforeTheEnd(t *testing.T) {
	var w worker
	w.endsAt(func() time.Time {
		if !w.noting.Load() {
			t.Error("the end is read, and the worker does not say yet that it notes it")
		}
		return time.Now()
	})
}

// TestNotingAPurchase: a worker does not say that it is noting while a purchase lasts, which
// may be long, nor when all are noted.
func TestNotingAPurchase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *measurement
		var during []bool
		m = fakeMeasurement(
			on1x1(Options{Duration: time.Second}), away,
			func(*measurement) market.Purchaser {
				return fake{onPurchase: func(context.Context, market.Order) (market.Receipt, error) {
					during = append(during, m.buyers[0].noting.Load())
					time.Sleep(300 * time.Millisecond)
					return market.Receipt{}, nil
				}}
			},
		)

		m.work(t.Context())
		if len(during) < 3 || slices.Contains(during, true) || m.buyers[0].noting.Load() {
			t.Errorf("noting while it buys: %v, and in the end %v", during, m.buyers[0].noting.Load())
		}
	})
}

// equalCourses compares courses, whose histograms may differ in more than what they hold.
func equalCourses(a, b *course) bool {
	for i := range a {
		x, y := a[i], b[i]
		equal := x.histogram.Equals(y.histogram)
		x.histogram, y.histogram = nil, nil
		if !equal || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

package bench

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/market"
)

// TestCollectorLosesNothing: whatever workers record, the collector's totals are those of histograms that each sample was
// written into at once, however the collector comes between.
func TestCollectorLosesNothing(t *testing.T) {
	const workers, samples = 4, 20 * ringSize
	for seed := range uint64(5) {
		c := newCollector()
		c.keepCourse(time.Minute)
		end := c.run()
		var plain [workers][waits]*hdrhistogram.Histogram
		var ended sync.WaitGroup
		for i := range workers {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			recorder := newRecorder(c, 1)
			for w := range plain[i] {
				plain[i][w] = newHistogram()
			}
			ended.Go(func() {
				for range samples {
					s := randomSample(random)
					recorder.hand(s)
					_ = plain[i][s.wait].RecordValue(min(s.took/1000, highestWait))
				}
			})
		}
		ended.Wait()
		end()
		took, _, _ := c.totals()
		for w := range took {
			want := newHistogram()
			for i := range plain {
				want.Merge(plain[i][w])
			}
			if !reflect.DeepEqual(took[w].Export(), want.Export()) {
				t.Errorf("seed %d: wait %d: %d collected, %d recorded", seed, w, took[w].TotalCount(), want.TotalCount())
			}
		}
	}
}

// randomSample is a sample of any kind, with times over all magnitudes.
func randomSample(random *rand.Rand) sample {
	return sample{
		start: random.Int64N(int64(time.Minute)), took: random.Int64N(int64(time.Microsecond) << random.IntN(28)),
		wait: wait(random.IntN(int(waits))),
	}
}

// TestRing: a ring gives back what was put in, in order, however often it wraps around, and takes no more than it holds.
func TestRing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ring
	next, expected := int64(0), int64(0)
	for range 1000 {
		for n := random.IntN(2 * ringSize); n > 0; n-- {
			put := r.put(sample{took: next})
			if full := next-expected == ringSize; put == full {
				t.Fatalf("put %t with %d in the ring, which holds %d", put, next-expected, ringSize)
			}
			if put {
				next++
			}
		}
		r.take(func(s *sample) {
			if s.took != expected {
				t.Fatalf("took out %d, want %d", s.took, expected)
			}
			expected++
		})
		if expected != next {
			t.Fatalf("took out %d of %d", expected, next)
		}
	}
}

// TestFullRing: a worker whose ring is full while somebody else holds the collector waits, loses nothing, and counts it.
func TestFullRing(t *testing.T) {
	c := newCollector()
	r := newRecorder(c, 1)
	one := sample{wait: listWait}
	c.mu.Lock()
	for range ringSize {
		r.hand(one)
	}
	if r.blocked != 0 || r.samples.put(one) {
		t.Fatalf("waited %d times, want the ring just full", r.blocked)
	}
	handed := make(chan struct{})
	go func() {
		r.hand(one)
		close(handed)
	}()
	if n := c.took[listWait].TotalCount(); n != 0 {
		t.Errorf("%d samples collected by a collector that is held", n)
	}
	select {
	case <-handed:
		t.Error("handed a sample over into a full ring")
	default:
	}
	c.mu.Unlock()
	<-handed
	took, _, _ := c.totals()
	if n := took[listWait].TotalCount(); n != ringSize+1 || r.blocked != 1 {
		t.Errorf("%d collected after %d waits, want %d after 1", n, r.blocked, ringSize+1)
	}
}

// TestTotalsAgain: the totals may be asked for again and again.
func TestTotalsAgain(t *testing.T) {
	c := newCollector()
	r := newRecorder(c, 1)
	for n := range int64(3) {
		took, _, _ := c.totals()
		if got := took[purchaseWait].TotalCount(); got != n {
			t.Errorf("%d collected, want %d", got, n)
		}
		now := time.Now()
		r.purchased(now, now, now, market.Order{Buyer: 1}, traffic{}, market.Receipt{}, nil)
	}
}

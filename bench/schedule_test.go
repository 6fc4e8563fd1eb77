package bench

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gaps are the first n gaps of a schedule, in parts of its mean gap.
func gaps(s *schedule, n int) []float64 {
	all := make([]float64, n)
	var last time.Duration
	for i := range all {
		due := s.after(last)
		all[i] = (due - last).Seconds() * s.rate
		last = due
	}
	return all
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// anyRate draws a rate from one that is slow to the highest.
func anyRate(t *rapid.T) float64 { return math.Pow(10, rapid.Float64Range(-1, 6).Draw(t, "exponent")) }

// TestPoissonGaps: gaps have the mean, the spread and the distribution of an exponential one, and none tells the next.
// The bounds are 6 standard deviations of what is estimated, and Kolmogorov's distance at about the same odds.
func TestPoissonGaps(t *testing.T) {
	const n = 20_000
	rapid.Check(t, func(t *rapid.T) {
		s := &schedule{arrivals: Poisson, rate: anyRate(t), seed: rapid.Uint64().Draw(t, "seed")}
		all := gaps(s, n)
		m := mean(all)
		var variance, together float64
		for i, g := range all {
			variance += (g - m) * (g - m) / n
			if i > 0 {
				together += (g - m) * (all[i-1] - m) / n
			}
		}
		slices.Sort(all)
		var distance float64
		for i, g := range all {
			distance = max(distance, math.Abs(1-math.Exp(-g)-float64(i)/n))
		}
		const sigma = 1 / 141.4 // 1/sqrt(n)
		if math.Abs(m-1) > 6*sigma || math.Abs(variance-1) > 6*2.83*sigma || math.Abs(together) > 6*sigma ||
			distance > 3.2*sigma {
			t.Fatalf("rate %v, seed %d: mean %.4f, variance %.4f, correlation %.4f, distance %.4f of gaps whose mean is 1",
				s.rate, s.seed, m, variance, together, distance)
		}
	})
}

// TestPoissonCounts: how many orders fall due in a window varies from seed to seed as much as its mean, and no seed is
// more than five standard deviations off.
func TestPoissonCounts(t *testing.T) {
	const seeds, expected = 2_000, 1_000.
	for _, rate := range []float64{500, 20_000} {
		window := time.Duration(expected / rate * float64(time.Second))
		var sum, squares, farthest float64
		for seed := range uint64(seeds) {
			s := &schedule{arrivals: Poisson, rate: rate, seed: seed}
			off := (float64(s.untaken(window/4, window+window/4)) - expected) / math.Sqrt(expected)
			sum, squares, farthest = sum+off, squares+off*off, max(farthest, math.Abs(off))
		}
		m, variance := sum/seeds, squares/seeds
		if math.Abs(m) > 5/math.Sqrt(seeds) || math.Abs(variance-1) > 5*math.Sqrt(2./seeds) || farthest > 5 {
			t.Errorf("rate %v: counts are off by %.3f on average, with a variance of %.3f, at most by %.1f standard deviations",
				rate, m, variance, farthest)
		}
	}
}

// TestConstantGaps: gaps are equal to the nanosecond, and the n-th order is due when the rate says.
func TestConstantGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &schedule{arrivals: Constant, rate: anyRate(t), seed: rapid.Uint64().Draw(t, "seed")}
		var last time.Duration
		for i := range 5_000 {
			due := s.after(last)
			want := float64(i+1) / s.rate * 1e9
			if math.Abs(float64(due)-want) > 1+want/1e15 {
				t.Fatalf("rate %v: order %d is due after %d ns, want %.1f", s.rate, i+1, due, want)
			}
			last = due
		}
	})
}

// TestScheduleIsTakenWhole: workers who take orders at the same time get together what one would get alone, and another
// schedule with the same seed has the same orders; with another seed it has others.
func TestScheduleIsTakenWhole(t *testing.T) {
	const workers, each = 8, 2_000
	for _, arrivals := range []Arrivals{Poisson, Constant} {
		var together, alone []time.Duration
		var mu sync.Mutex
		var group sync.WaitGroup
		s := schedule{arrivals: arrivals, rate: 10_000, seed: 7}
		for range workers {
			group.Go(func() {
				var mine []time.Duration
				for range each {
					mine = append(mine, s.take())
				}
				if !slices.IsSorted(mine) {
					t.Error("a worker went back in time")
				}
				mu.Lock()
				defer mu.Unlock()
				together = append(together, mine...)
			})
		}
		group.Wait()
		again := schedule{arrivals: arrivals, rate: 10_000, seed: 7}
		for range workers * each {
			alone = append(alone, again.take())
		}
		slices.Sort(together)
		if !slices.Equal(together, alone) || len(slices.Compact(together)) != len(alone) {
			t.Errorf("%s: %d workers took other orders than one", arrivals, workers)
		}
		rest := schedule{arrivals: arrivals, rate: 10_000, seed: 7}
		for range 10 {
			rest.take()
		}
		for want, from := range map[int64]time.Duration{91: 0, 90: alone[11], 1: alone[100], 0: alone[100] + 1} {
			if n := rest.untaken(from, alone[100]); n != want {
				t.Errorf("%s: %d orders from %s, want %d", arrivals, n, from, want)
			}
		}
		other := schedule{arrivals: arrivals, rate: 10_000, seed: 8}
		if same := other.take() == alone[0]; same != (arrivals == Constant) {
			t.Errorf("%s: with another seed the first order is the same: %t", arrivals, same)
		}
	}
}

func TestRatesThatCannotBeScheduled(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), MaxRate + 1} {
		if err := checkRate(rate, Poisson); !errors.Is(err, ErrConfig) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	if err := checkRate(1, "weekly"); !errors.Is(err, ErrConfig) {
		t.Errorf("unknown arrivals: %v", err)
	}
	for _, arrivals := range []Arrivals{Poisson, Constant} {
		if err := checkRate(MaxRate, arrivals); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkTake shows what an order costs that is taken from the schedule: the reason given for MaxRate.
func BenchmarkTake(b *testing.B) {
	s := schedule{arrivals: Poisson, rate: 1000, seed: 1}
	b.ReportAllocs()
	for b.Loop() {
		s.take()
	}
}

package load

import (
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
func anyRate(t *rapid.T) float64 {
	return math.Pow(10, rapid.Float64Range(-1, 6).Draw(t, "exponent"))
}

// TestPoissonGaps: gaps have the mean, the spread and the distribution of an exponential
// one, and none tells the next. The bounds are 6 standard deviations of what is
// estimated, and Kolmogorov's distance at about the same odds.
func TestPoissonGaps(t *testing.T) {
	const n = 20_000
	rapid.Check(t, func(t *rapid.T) {
		s := &schedule{rate: anyRate(t), seed: rapid.Uint64().Draw(t, "seed")}
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
		// The variance of n such gaps has a standard deviation of sqrt(8/n), 2.83 sigma.
		if math.Abs(m-1) > 6*sigma || math.Abs(variance-1) > 6*2.83*sigma ||
			math.Abs(together) > 6*sigma || distance > 3.2*sigma {
			t.Fatalf("rate %v, seed %d: mean %.4f, variance %.4f, correlation %.4f, "+
				"distance %.4f of gaps whose mean is 1",
				s.rate, s.seed, m, variance, together, distance)
		}
	})
}

// TestScheduleIsTakenWhole: workers that take orders at the same time together get
// what one would get alone. Another schedule with the same seed has the same orders;
// with another seed it has others.
func TestScheduleIsTakenWhole(t *testing.T) {
	const workers, each = 8, 2_000
	var together, alone []time.Duration
	var mu sync.Mutex
	var group sync.WaitGroup

	s := schedule{rate: 10_000, seed: 7}
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

	again := schedule{rate: 10_000, seed: 7}
	for range workers * each {
		alone = append(alone, again.take())
	}

	slices.Sort(together)
	if !slices.Equal(together, alone) || len(slices.Compact(together)) != len(alone) {
		t.Errorf("%d workers took other orders than one", workers)
	}

	rest := schedule{rate: 10_000, seed: 7}
	for range 10 {
		rest.take()
	}
	// Ten are taken: of the 100 before alone[100] 90 are left, and alone[10] is the first.
	for want, from := range map[int64]time.Duration{
		90: 0, 89: alone[11], 1: alone[99], 0: alone[100],
	} {
		if n := rest.untaken(from, alone[100]); n != want {
			t.Errorf("%d orders from %s, want %d", n, from, want)
		}
	}

	if other := (&schedule{rate: 10_000, seed: 8}).take(); other == alone[0] {
		t.Error("with another seed the first order is the same")
	}
}

// TestConstantGaps: orders are due at equal gaps, as many a second as the rate says over
// however long, each later than the one before it, whoever takes them.
func TestConstantGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := anyRate(t)
		s := &schedule{rate: rate, seed: rapid.Uint64().Draw(t, "seed"), constant: true}
		start := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start"))
		s.taken.Store(int64(start))
		first := s.take()

		// Both ends of a gap are whole nanoseconds, which makes it wrong by 2 ns at most.
		const n = 1_000
		last := first
		for range n {
			next := s.take()
			if gap := (next - last).Seconds() * rate; math.Abs(gap-1) > 2e-9*rate+1e-6 || next <= last {
				t.Fatalf("rate %v: a gap of %s after %s, %v of the mean gap", rate, next-last, last, gap)
			}
			last = next
		}

		if all := (last - first).Seconds() * rate; math.Abs(all-n) > 2e-9*rate+1e-6 {
			t.Fatalf("rate %v: %d gaps take as long as %v", rate, n, all)
		}

		if first <= start {
			t.Fatalf("an order of %s is taken at %s", first, start)
		}
	})

	s := &schedule{rate: 3, constant: true}
	if n := s.untaken(0, time.Second+time.Millisecond); n != 3 {
		t.Errorf("%d orders fall due in the first second, want 3", n)
	}
}

package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMedian: the ranks follow from the binomial distribution. 2 of 9 lie below the
// second value with a probability of 10/512, so that the second to the eighth span the
// median with 1 - 2*10/512 = 0.961.
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		n         int
		low, high float64 // ranks
	}{{6, 1, 6}, {7, 1, 7}, {8, 1, 8}, {9, 2, 8}, {12, 3, 10}, {15, 4, 12}, {30, 10, 21}} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(i + 1)
		}

		rand.New(rand.NewPCG(1, 2)).Shuffle(c.n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		before := slices.Clone(values)
		got := Median(values)
		if got.Low != c.low || got.High != c.high || got.Center != float64(c.n+1)/2 || got.N != c.n || !got.Known() {
			t.Errorf("of %d values: %+v, want ranks %v to %v", c.n, got, c.low, c.high)
		}

		if !slices.Equal(values, before) {
			t.Errorf("%v became %v", before, values)
		}
	}
}

// TestTooFew: five values and fewer give no interval at 95%, and the warning
// says how many do.
func TestTooFew(t *testing.T) {
	for n := range 6 {
		got := Median(make([]float64, n))
		if got.Known() || !math.IsInf(got.Low, -1) || !math.IsInf(got.High, 1) {
			t.Errorf("of %d values: %+v", n, got)
		}
		if got.N != n || n > 0 && got.Center != 0 || n == 0 && !math.IsNaN(got.Center) {
			t.Errorf("of %d values: %+v", n, got)
		}
	}
}

// TestMirror: the interval of the negative values is the negative interval, for
// any number of values.
func TestMirror(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 70).Draw(t, "values")
		confidence := rapid.SampledFrom([]float64{0.95, 0.975, 0.99, 0.999}).Draw(t, "confidence")
		negative := make([]float64, len(values))
		for i, v := range values {
			negative[i] = -v
		}

		a, b := median(values, confidence), median(negative, confidence)
		if a.Low != -b.High || a.High != -b.Low {
			t.Fatalf("%v and %v", a, b)
		}

		if a.Low > a.Center || a.High < a.Center {
			t.Fatalf("%v does not hold its median", a)
		}
	})
}

package bench

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNearestRank: the percentile of a histogram is that of its sorted values, at the rank rounded up.
func TestNearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Below 2,048 us a histogram keeps values exactly.
		values := rapid.SliceOfN(rapid.Int64Range(1, 2000), 1, 3000).Draw(t, "values")
		h := newHistogram()
		for _, us := range values {
			_ = h.RecordValue(us)
		}
		slices.Sort(values)
		for _, perMille := range []int64{1, 500, 900, 990, 999, 1000} {
			exceeded := 0 // how many values must not exceed the percentile
			for int64(exceeded)*1000 < perMille*int64(len(values)) {
				exceeded++
			}
			if got, want := nearestRank(h, perMille), values[exceeded-1]; got != want {
				t.Errorf("%d per mille of %d values: %d, want the one of rank %d, which is %d", perMille, len(values), got,
					exceeded, want)
			}
		}
	})
}

// TestNearestRankDiffers: where the rank is no whole number and its fraction is below a half, the library takes the value
// before.
func TestNearestRankDiffers(t *testing.T) {
	for _, c := range []struct{ n, library, want int64 }{
		{100, 99, 99},   // 99
		{240, 238, 238}, // 237.6
		{260, 257, 258}, // 257.4
		{301, 298, 298}, // 297.99
		{901, 892, 892}, // 891.99
		{910, 901, 901}, // 900.9
		{930, 921, 921}, // 920.7
		{960, 950, 951}, // 950.4
	} {
		h := newHistogram()
		for us := range c.n {
			_ = h.RecordValue(us + 1)
		}
		l := latency(h)
		if library := h.ValueAtQuantile(99); library != c.library || l.P99 != float64(c.want)/1000 || *l.Count != c.n {
			t.Errorf("p99 of 1 to %d us: the library has %d, the row %v ms of %d; want %d and %d", c.n, library, l.P99,
				*l.Count, c.library, c.want)
		}
	}
}

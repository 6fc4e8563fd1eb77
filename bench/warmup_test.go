package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market"
)

// course is what a market is like at a time: how many purchases come in a second, and how many listings there are.
type course func(seconds float64) (rate, listings float64)

// TestWarmupEnds: when a warm-up of at least a second ends, for courses of trade as mixes have them. Purchases come by
// chance, which may deceive one seed in twenty.
func TestWarmupEnds(t *testing.T) {
	for name, c := range map[string]struct {
		buyers      int
		course      course
		least, most float64 // s; 60: never
	}{
		"sellers are faster for ever": {1, func(s float64) (float64, float64) { return 2000, 1 + 4000*s }, 1, 2},
		"buyers starve for ever":      {50, func(float64) (float64, float64) { return 150, 1 }, 1, 4},
		"slow":                        {5, func(s float64) (float64, float64) { return 10, 1000 * s }, 3, 15},
		// Hundreds of buyers queue for the first few listings for 5 s, and nothing shows it but the listings.
		"a queue at first": {200, func(s float64) (float64, float64) {
			if s < 5 {
				return 150, 1500 * s
			}
			return 3700, 7500 + 1100*s
		}, 6.6, 25},
		"a start of two seconds": {5, func(s float64) (float64, float64) {
			return 4000 * (1 - math.Exp(-s/2)), 2000 * s
		}, 3, 12},
		"growing for ever": {5, func(s float64) (float64, float64) { return 500 * s, 2000 * s }, 60, 60},
		"nothing":          {5, func(s float64) (float64, float64) { return 0, 2000 * s }, 60, 60},
	} {
		var wrong []float64
		for seed := range uint64(40) {
			if at := endOf(c.buyers, c.course, seed); at < c.least || at > c.most {
				wrong = append(wrong, at)
			}
		}
		if len(wrong) > 2 {
			t.Errorf("%s: of 40 warm-ups these end otherwise than after %v to %v s: %.1f", name, c.least, c.most, wrong)
		}
	}
}

// endOf is when a warm-up ends, in seconds; 60: it does not.
func endOf(buyers int, c course, seed uint64) float64 {
	random := rand.New(rand.NewPCG(seed, 3))
	w := warmup{buyers: buyers}
	bought := 0.0
	const each = 0.02
	for s := each; s < 60; s += each {
		rate, listings := c(s)
		n := rate * each
		bought += max(0, math.Floor(n+math.Sqrt(n)*random.NormFloat64()+random.Float64()))
		w.look(time.Duration(s*float64(time.Second)), int64(bought), int64(listings))
		if s >= 1 && w.unsteady() == "" {
			return s
		}
	}
	return 60
}

// TestWarmupWaits: the warm-up of a row goes on while purchases come ever faster, and no purchase of it is counted.
func TestWarmupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		everFaster := func(context.Context, market.Order) (market.Receipt, error) {
			more := 200 * math.Exp(-2*time.Since(start).Seconds()) // ms
			time.Sleep(time.Millisecond + time.Duration(more*float64(time.Millisecond)))
			return market.Receipt{}, nil
		}
		row := alone(t.Context(), Config{Warmup: time.Second, WarmupMax: 20 * time.Second, Duration: 2 * time.Second}, everFaster)
		if w := *row.WarmupSeconds; row.Bought < 1900 || row.Bought > 2001 || !*row.Settled || row.Seconds != 2 ||
			w < 3 || w > 8 {
			t.Errorf("after a warm-up of %.2f s %d purchases in %v s, settled %t", w, row.Bought, row.Seconds, *row.Settled)
		}
	})
}

// TestNeverSteady: a warm-up that does not settle ends all the same, and the row says so.
func TestNeverSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := alone(t.Context(), Config{Warmup: time.Second, WarmupMax: 4 * time.Second, Duration: 2 * time.Second},
			lasting(500*time.Millisecond))
		want := "trade was not steady after a warm-up of 4.0 s: only 4 purchases were made in the second half of it"
		if *row.Settled || len(row.Warnings) != 1 || row.Warnings[0] != want || *row.WarmupSeconds > 4.1 {
			t.Errorf("settled %t after %v s, warnings %q", *row.Settled, *row.WarmupSeconds, row.Warnings)
		}
	})
}

package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// TestSteps: a row has at most result.MaxPoints steps, and short rows have enough of them to show anything.
func TestSteps(t *testing.T) {
	for duration, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 10 * time.Millisecond, time.Second: 10 * time.Millisecond, 2 * time.Second: 20 * time.Millisecond,
		3 * time.Second: 50 * time.Millisecond, 10 * time.Second: 100 * time.Millisecond,
		time.Minute: 100 * time.Millisecond, time.Minute + 1: 200 * time.Millisecond, time.Hour: 10 * time.Second,
		365 * 24 * time.Hour: 100_000 * time.Second,
	} {
		step := stepFor(duration)
		if steps := (duration + step - 1) / step; step != want || steps > result.MaxPoints {
			t.Errorf("%s in %d steps of %s, want %s", duration, steps, step, want)
		}
	}
}

// TestSeries: the steps of a series add up to what was recorded, and each has the percentile of its own purchases, whether
// the end is known, and nothing is merged, or not.
func TestSeries(t *testing.T) {
	const orders = 20_000
	took := 13 * time.Second
	for _, known := range []time.Duration{took, 0} {
		random := rand.New(rand.NewPCG(1, 2))
		s := newSeries(known)
		type order struct {
			began       time.Duration
			us, retries int64
			bought      bool
		}
		var all []order
		for range orders {
			o := order{time.Duration(random.Int64N(int64(took))), random.Int64N(1 << random.IntN(26)), random.Int64N(3), random.IntN(4) > 0}
			w := purchaseWait
			if !o.bought {
				w = givenUpWait
			}
			s.add(o.began, w, o.us, o.retries)
			s.add(o.began, listWait, o.us, 0) // not in it
			all = append(all, o)
		}
		got := s.result(took)
		if n := len(got.Purchases); n > result.MaxPoints || n < result.MaxPoints/6 {
			t.Fatalf("%d steps", n)
		}
		step := time.Duration(got.StepSeconds * float64(time.Second))
		for i := range got.Purchases {
			var waits []int64
			var retries int64
			for _, o := range all {
				if int(o.began/step) == i {
					retries += o.retries
					if o.bought {
						waits = append(waits, o.us)
					}
				}
			}
			slices.Sort(waits)
			if got.Purchases[i] != int64(len(waits)) || got.Retries[i] != retries {
				t.Fatalf("step %d: %d purchases and %d retries, want %d and %d", i, got.Purchases[i], got.Retries[i], len(waits), retries)
			}
			if len(waits) == 0 {
				continue
			}
			rank := (99*len(waits) + 99) / 100
			exact, p99 := float64(waits[rank-1])/1000, got.P99MS[i]
			if p99 < exact || p99 > exact*(1+1.0/perOctave) || got.MaxMS[i] != float64(waits[len(waits)-1])/1000 {
				t.Errorf("step %d: p99 %v and max %v ms, want %v and %v", i, p99, got.MaxMS[i], exact, waits[len(waits)-1])
			}
		}
	}
}

// TestStepBuckets: each wait lies in its bucket, and the next bucket begins after it.
func TestStepBuckets(t *testing.T) {
	for us := int64(0); us <= highestWait; us += 1 + us/1000 {
		i := stepBucket(us)
		if i >= stepBuckets || us > bucketTop(i) || i > 0 && us <= bucketTop(i-1) {
			t.Fatalf("%d us is in bucket %d, which ends at %d; the one before at %d", us, i, bucketTop(i), bucketTop(i-1))
		}
	}
}

// TestSeriesOfARow: the series of a row adds up to the row, its operations of the warm-up left out.
func TestSeriesOfARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := alone(t.Context(), Config{Warmup: time.Second, Duration: 2 * time.Second}, lasting(7*time.Millisecond))
		if sum(row.Series.Purchases) != row.Bought || len(row.Series.Purchases) != 100 || row.Series.StepSeconds != 0.02 {
			t.Errorf("%d of %d purchases in %d steps", sum(row.Series.Purchases), row.Bought, len(row.Series.Purchases))
		}
		if *row.WarmupSeconds != 1 || !*row.Settled || *row.Drift < 0.98 || *row.Drift > 1.02 || len(row.Warnings) != 0 {
			t.Errorf("warm-up %v s, settled %t, drift %v, %q", *row.WarmupSeconds, *row.Settled, *row.Drift, row.Warnings)
		}
	})
}

// TestDrift: a row that changes is told from one whose purchases come by chance.
func TestDrift(t *testing.T) {
	even := func(random *rand.Rand, _ int) int64 { return 40 + random.Int64N(21) }
	for name, c := range map[string]struct {
		count func(random *rand.Rand, i int) int64
		clear bool
		most  int // of a hundred seeds that may say otherwise
	}{
		"even":       {even, false, 1},
		"one in ten": {func(random *rand.Rand, _ int) int64 { return random.Int64N(10) / 9 }, false, 4},
		"growing":    {func(random *rand.Rand, i int) int64 { return even(random, i) + int64(i)/2 }, true, 1},
		"ends":       {func(random *rand.Rand, i int) int64 { return even(random, i) * int64(min(1, 80/(i+1))) }, true, 1},
	} {
		wrong := 0
		for seed := range uint64(100) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := &result.Series{StepSeconds: 0.1}
			for i := range 100 {
				s.Purchases = append(s.Purchases, c.count(random, i))
			}
			if _, clear := drift(s, 10); clear != c.clear {
				wrong++
			}
		}
		if wrong > c.most {
			t.Errorf("%s: %d of 100 are judged otherwise than clear: %t", name, wrong, c.clear)
		}
	}
}

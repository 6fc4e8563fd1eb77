package sweep

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/result"
)

// near reports whether a is b, but for a part of it.
func near(a, b, part float64) bool { return math.Abs(a-b) <= part*math.Max(math.Abs(b), 1e-9) }

// throughput is what a law gives at each number of clients.
func throughput(l result.Law, n []float64) (x []float64) {
	for _, v := range n {
		x = append(x, l.X(v))
	}
	return x
}

// TestFitFindsThePlantedLaw, whatever it is, with parameters of 0 among them.
func TestFitFindsThePlantedLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		planted := result.Law{
			Lambda: rapid.Float64Range(1, 1e5).Draw(t, "lambda"),
			Sigma:  rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-3, 1.5)).Draw(t, "sigma"),
			Kappa:  rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-5, 0.1)).Draw(t, "kappa"),
		}
		n := []float64{1, 2, 4, 8, 16, 32, 64, 128}[:rapid.IntRange(FewestPoints, 8).Draw(t, "points")]
		got, err := Fit(n, throughput(planted, n))
		if err != nil {
			t.Fatal(err)
		}
		if !near(got.Lambda, planted.Lambda, 1e-6) || math.Abs(got.Sigma-planted.Sigma) > 1e-6 ||
			math.Abs(got.Kappa-planted.Kappa) > 1e-7 || got.R2 < 0.999999 || got.Points != len(n) || got.MaxN != n[len(n)-1] {
			t.Fatalf("planted %+v, found %+v", planted, got)
		}
		if planted.Kappa > 0 && planted.Sigma < 1 {
			if want := math.Max(1, math.Sqrt((1-planted.Sigma)/planted.Kappa)); !near(got.Peak, want, 1e-3) {
				t.Fatalf("the peak is at %v clients, want %v", got.Peak, want)
			}
		}
	})
}

// TestPeak: nowhere near it is the throughput larger, and a law without coherence has none.
func TestPeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := result.Law{
			Lambda: 1000, Sigma: rapid.Float64Range(0, 2).Draw(t, "sigma"), Kappa: rapid.Float64Range(1e-6, 0.5).Draw(t, "kappa"),
		}
		n, x := peak(l)
		for _, other := range []float64{n * 0.9, n * 1.1, n + 1} {
			if other >= 1 && l.X(other) > x*(1+1e-12) {
				t.Fatalf("%v at %v clients, but %v at %v", x, n, l.X(other), other)
			}
		}
	})
	if n, x := peak(result.Law{Lambda: 10, Sigma: 0.5}); n != 0 || x != 0 {
		t.Errorf("throughput that grows for ever has its peak at %v", n)
	}
	if n, _ := peak(result.Law{Lambda: 10, Sigma: 1.5}); n != 1 {
		t.Errorf("throughput that only falls has its peak at %v", n)
	}
}

// TestFitOfAnything: any positive throughput gives a law that could be one, and that no other of its kind fits better.
func TestFitOfAnything(t *testing.T) {
	fitted := 0
	rapid.Check(t, func(t *rapid.T) {
		n := []float64{1, 2, 3, 5, 8, 13, 21}
		x := rapid.SliceOfN(rapid.Float64Range(1, 1e6), len(n), len(n)).Draw(t, "throughput")
		got, err := Fit(n, x)
		if err != nil {
			if !strings.Contains(err.Error(), "no finite lambda") {
				t.Fatal(err)
			}
			return
		}
		fitted++
		for what, v := range map[string]float64{
			"lambda": got.Lambda, "sigma": got.Sigma, "kappa": got.Kappa, "peak": got.Peak, "throughput at the peak": got.PeakX,
		} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("the %s is %v", what, v)
			}
		}
		if !(got.R2 <= 1) || math.IsInf(got.R2, 0) {
			t.Fatalf("R2 is %v", got.R2)
		}
		miss := func(l result.Law) (sum float64) {
			for i := range n {
				sum += math.Pow(1-x[i]/l.X(n[i]), 2)
			}
			return sum
		}
		other := result.Law{
			Lambda: got.Lambda * rapid.Float64Range(0.5, 2).Draw(t, "more lambda"),
			Sigma:  got.Sigma*rapid.Float64Range(0, 2).Draw(t, "more sigma") + rapid.Float64Range(0, 0.1).Draw(t, "plus"),
			Kappa:  got.Kappa * rapid.Float64Range(0, 2).Draw(t, "more kappa"),
		}
		if miss(other) < miss(got)*(1-1e-9) {
			t.Fatalf("%+v misses by %v, and %+v by %v", got, miss(got), other, miss(other))
		}
	})
	if fitted == 0 {
		t.Error("nothing was fitted")
	}
}

func TestFitRefuses(t *testing.T) {
	five := []float64{1, 2, 4, 8, 16}
	if _, err := Fit(five, five); err == nil || !strings.Contains(err.Error(), "5 points along clients, and it takes 6") {
		t.Errorf("five points: %v", err)
	}
	six := append(five, 32)
	if _, err := Fit(six, []float64{1, 2, 3, 0, 5, 6}); err == nil {
		t.Error("a throughput of 0 is fitted")
	}
	if _, err := Fit(six, []float64{3, 730, 198, 3, 2, 2}); err == nil || !strings.Contains(err.Error(), "no finite lambda") {
		t.Errorf("points that no law goes near: %v", err)
	}
	level, err := Fit(six, []float64{7, 7, 7, 7, 7, 7})
	if err != nil || level.R2 != 1 || !near(level.Sigma, 1, 1e-9) || level.Kappa != 0 {
		t.Errorf("a throughput that stays the same: %+v, %v", level, err)
	}
}

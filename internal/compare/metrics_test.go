package compare

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
)

// byMetrics is a run in which a has the p99 and the server's time of b times the given
// ratio, one for each round, at the same purchases/s.
func byMetrics(names []string, ratios ...float64) *runs.Run {
	rates := make([][2]float64, len(ratios))
	for i := range rates {
		rates[i] = [2]float64{100, 100}
	}

	run := comparison(0.05, rates...)
	run.Manifest.Config.Metrics = names

	for i := range run.Rows {
		r := &run.Rows[i]
		times := 1.0
		if r.Strategy == "a" {
			times = ratios[r.Trial-1]
		}

		r.WaitMS = result.Latency{Mean: 2, P99: 4 * times, Count: 100}
		r.ServerCPU = new(times)
		r.Retries = int64(10 * r.Trial)
	}
	return run
}

// find is the comparison of a with b by a metric.
func find(t *testing.T, run *runs.Run, short string) Comparison {
	t.Helper()
	all := Of(run)
	i := slices.IndexFunc(all, func(c Comparison) bool {
		return c.Metric.Short == short && c.A == "a"
	})
	if i < 0 {
		t.Fatalf("nothing is compared by %s", short)
	}
	return all[i]
}

// TestEachMetricHasItsVerdict: of a latency a comparison says lower and higher, never faster
// and slower, and all intervals hold at once.
func TestEachMetricHasItsVerdict(t *testing.T) {
	names := []string{runs.PurchasesPerSecond, "wait_ms_p99", "wait_ms_mean"}
	for want, times := range map[Conclusion]float64{Lower: 0.5, Higher: 2, NoDifference: 1.01} {
		run := byMetrics(names, slices.Repeat([]float64{times}, 7)...)
		p99 := find(t, run, "p99")
		if p99.Verdict != want ||
			math.Abs(p99.Ratio-times) > 1e-9 || math.Abs(p99.MedianA-4*times) > 1e-9 ||
			p99.MedianB != 4 || math.Abs(p99.Confidence-(1-0.05/3)) > 1e-12 || p99.Rounds != 7 {
			t.Errorf("%v times the p99: %+v, want %s", times, p99, want)
		}

		opposite := map[Conclusion]Conclusion{
			Lower: Higher, Higher: Lower, NoDifference: NoDifference,
		}[want]
		if back := p99.Reversed(); back.Verdict != opposite || math.Abs(back.Ratio*times-1) > 1e-9 {
			t.Errorf("reversed it is %+v, want %s", back, opposite)
		}

		for _, same := range []string{"purchases/s", "avg-wait"} {
			if got := find(t, run, same); got.Verdict != NoDifference {
				t.Errorf("%s: %+v", same, got)
			}
		}
	}
}

// TestMetricsTakeRounds: six rounds are an interval of one pair by one metric, and none of
// one by three.
func TestMetricsTakeRounds(t *testing.T) {
	half := slices.Repeat([]float64{0.5}, 6)
	if got := find(t, byMetrics([]string{"wait_ms_p99"}, half...), "p99"); got.Verdict != Lower {
		t.Errorf("of one metric: %+v", got)
	}
	run := byMetrics([]string{"wait_ms_p99", "wait_ms_mean", "server_us"}, half...)
	if n := Intervals(run.Manifest.Config); n != 3 || Fewest(n) != 7 {
		t.Errorf("%d intervals take %d rounds", n, Fewest(n))
	}
	if got := find(t, run, "p99"); got.Verdict != Undecided ||
		got.Reason != "6 rounds give no interval at 98.33%" {
		t.Errorf("of three metrics: %+v", got)
	}
}

// TestNoRatio: a metric that is 0 or not known in a round is no number that is divided, and
// the reason says of whom and where. It leaves the other metrics alone.
func TestNoRatio(t *testing.T) {
	names := []string{"retries_per_purchase", "server_us", "wait_ms_p99"}
	for want, spoil := range map[string]func(r *result.Row){
		"no ratio: retries/purchase of b is 0 in round 3":  func(r *result.Row) { r.Retries = 0 },
		"no ratio: server-us of b is not known in round 3": func(r *result.Row) { r.ServerCPU = nil },
		"no ratio: server-us of b is 0 in round 3":         func(r *result.Row) { r.ServerCPU = new(float64) },
	} {
		run := byMetrics(names, slices.Repeat([]float64{0.5}, 9)...)
		spoil(&run.Rows[5]) // b's of the third round

		short := strings.Fields(want)[2]
		got := find(t, run, short)
		if got.Verdict != Undecided || got.Reason != want ||
			!math.IsNaN(got.Ratio) || !math.IsNaN(got.Low) {
			t.Errorf("%+v, want %q", got, want)
		}
		if unknown := strings.Contains(want, "known"); math.IsNaN(got.MedianB) != unknown ||
			math.IsInf(got.MedianB, 0) {
			t.Errorf("%s: the median of b is %v", want, got.MedianB)
		}

		if p99 := find(t, run, "p99"); p99.Verdict != Lower || p99.Reason != "" {
			t.Errorf("%s: p99 is %+v", want, p99)
		}
	}
}

// TestItselfByMetric: a strategy whose p99 differs from its own leaves the p99 of all
// undecided, and not their purchases/s.
func TestItselfByMetric(t *testing.T) {
	run := byMetrics([]string{runs.PurchasesPerSecond, "wait_ms_p99"},
		slices.Repeat([]float64{0.5}, 9)...)
	run.Manifest.Config.Points = append(run.Manifest.Config.Points, point("b#2"))
	for _, r := range run.Rows {
		if r.Strategy == "b" {
			r.Strategy = "b#2"
			r.WaitMS.P99 *= 1.5
			run.Rows = append(run.Rows, r)
		}
	}

	const want = "b had a higher p99 than itself at 5x5"
	if got := find(t, run, "p99"); got.Verdict != Undecided ||
		got.Reason != want || math.IsNaN(got.Low) {
		t.Errorf("%+v, want %q", got, want)
	}

	if got := find(t, run, "purchases/s"); got.Verdict != NoDifference || got.Reason != "" {
		t.Errorf("%+v", got)
	}
}

package compare

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
)

// held is a run of byMetrics, without a margin, that is held to thresholds.
func held(t *testing.T, ratios []float64, thresholds ...string) *runs.Run {
	run := byMetrics(nil, ratios...)
	run.Manifest.Config.Margin = nil
	for _, text := range thresholds {
		run.Manifest.Config.Thresholds = append(run.Manifest.Config.Thresholds,
			testkit.Must(runs.ParseThreshold(text))(t))
	}
	return run
}

// TestThresholds: one is met or broken where the whole interval lies on one side of the
// limit. b's p99 is 4 ms, and a's is 4 ms times ratios from 1 to 2.
func TestThresholds(t *testing.T) {
	ratios := []float64{1, 1.2, 1.4, 1.6, 1.8, 2, 1.5, 1.5}
	for text, want := range map[string][]Standing{ // of b, which is the first, and of a
		"p99<=4ms":                 {Met, NotDecided},
		"p99<=8ms":                 {Met, Met},
		"p99<=7ms":                 {Met, NotDecided},
		"p99<=3.999ms":             {Broken, Broken},
		"p99>=4ms":                 {Met, Met},
		"p99>=4.5ms":               {Broken, NotDecided},
		"p99>=8.1ms":               {Broken, Broken},
		"p99<=2*first":             {Met},
		"p99<=1.99*first":          {NotDecided},
		"p99<=0.9*first":           {Broken},
		"p99>=first":               {Met},
		"purchases/s>=0.95*first":  {Met},
		"purchases/s>=1.05*first":  {Broken},
		"purchases/s>=100":         {Met, Met},
		"purchases/s>=101":         {Broken, Broken},
		"retries/purchase<=0":      {Broken, Broken},
		"late<=1%":                 {NotDecided, NotDecided}, // a closed loop has none
		"commands/purchase<=first": {NotDecided},
	} {
		all := CheckThresholds(held(t, ratios, text))
		var got []Standing
		for _, c := range all {
			got = append(got, c.Standing)
			each := 1 - 0.05/float64(len(want))
			if c.Rounds != len(ratios) || math.Abs(c.Confidence-each) > 1e-12 {
				t.Errorf("%s: %+v", text, c)
			}
			if math.IsInf(c.Low, 0) || math.IsNaN(c.Low) != (c.Reason != "") {
				t.Errorf("%s: the interval is %v to %v, because %q", text, c.Low, c.High, c.Reason)
			}
		}

		if !slices.Equal(got, want) {
			t.Errorf("%s is %q of b and a, want %q: %+v", text, got, want, all)
		}
	}
}

// TestThresholdsTogether: the intervals of all checks hold at once, which takes more rounds,
// and a strategy that is there again is not held to any.
func TestThresholdsTogether(t *testing.T) {
	run := held(t, slices.Repeat([]float64{1}, 6), "p99<=5ms", "avg-wait<=5ms", "p99<=2*first")
	run.Manifest.Config.Points = append(run.Manifest.Config.Points, point("b#2"))
	if n := Checks(run.Manifest.Config); n != 5 || Fewest(n) != 8 {
		t.Errorf("%d checks take %d rounds, want 5 and 8", n, Fewest(n))
	}
	for _, c := range CheckThresholds(run) {
		if c.Standing != NotDecided || c.Reason != "6 rounds give no interval at 99%" ||
			strings.Contains(c.Strategy, "#") {
			t.Errorf("%+v", c)
		}
	}
}

// TestThresholdsUndecided: what leaves a comparison undecided leaves a threshold undecided,
// and the reason says why.
func TestThresholdsUndecided(t *testing.T) {
	same := slices.Repeat([]float64{1}, 7)

	// Rows 10 and 12 are a's of the last two rounds.
	for want, spoil := range map[string]func(run *runs.Run){
		"a failed its audit in round 7":        func(run *runs.Run) { run.Rows[12].Audit.OK = false },
		"6 of 7 rounds":                        func(run *runs.Run) { run.Rows = run.Rows[:12] },
		"server-us of a is not known in round": func(run *runs.Run) { run.Rows[12].ServerCPU = nil },
		"other processes took 43% of this machine's time in 2 of 7 rounds": func(run *runs.Run) {
			run.Rows[12].Warn(result.Busy, 0.43, "")
			run.Rows[10].Warn(result.Busy, 0.43, "")
		},
		"6 rounds give no interval at 97.5%": func(run *runs.Run) {
			run.Rows = run.Rows[:12]
			run.Manifest.Config.Trials = 6
		},
	} {
		run := held(t, same, "server-us<=1s")
		spoil(run)

		c := CheckThresholds(run)[1] // of a
		if c.Standing != NotDecided || !strings.Contains(c.Reason, want) {
			t.Errorf("%+v, want %q", c, want)
		}
	}
}

// TestThresholdsOfDoubt: nothing is known of ratios where the first differs from itself.
func TestThresholdsOfDoubt(t *testing.T) {
	run := held(t, slices.Repeat([]float64{1}, 9), "p99<=2*first", "p99<=1ms")
	run.Manifest.Config.Margin = new(0.05)
	run.Manifest.Config.Points = append(run.Manifest.Config.Points, point("b#2"))
	for _, r := range run.Rows {
		if r.Strategy == "b" {
			r.Strategy = "b#2"
			r.WaitMS.P99 *= 2
			run.Rows = append(run.Rows, r)
		}
	}

	all := CheckThresholds(run)
	if len(all) != 3 || all[0].Standing != NotDecided ||
		all[0].Reason != "b had a higher p99 than itself at 5x5" {
		t.Errorf("%+v", all)
	}

	if all[1].Standing != Broken || all[2].Standing != Broken {
		t.Errorf("a limit in ms does not rest on the first: %+v", all[1:])
	}
}

package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

func TestReach(t *testing.T) {
	for want, i := range map[string]compare.Interval{
		"± 3%": {Center: 100, Low: 99, High: 103}, "±12%": {Center: 100, Low: 88, High: 101},
		"±250%": {Center: 2, Low: 1, High: 7}, "± 0%": {}, "to 36.0": {High: 36},
		none: {Center: 1, Low: math.Inf(-1), High: math.Inf(1)},
	} {
		if got := reach(i); got != want {
			t.Errorf("%+v: %s, want %s", i, got, want)
		}
	}
}

// TestMedianRow: each number is the median of its own, whichever row that is from, and an audit that failed in one round
// is not hidden by the others.
func TestMedianRow(t *testing.T) {
	rows := []result.Row{
		{Strategy: "fine", Bought: 1, WaitMS: result.Latency{P99: 30}, CommandsPerSecond: new(5.0), PerBuyer: []int64{1, 9},
			Audit: result.Audit{Done: true, OK: true}},
		{Strategy: "fine", Bought: 2, WaitMS: result.Latency{P99: 10}, PerBuyer: []int64{2, 8}, Browsers: 3,
			Audit: result.Audit{Done: true, ItemProblems: 4}},
		{Strategy: "fine", Bought: 9, WaitMS: result.Latency{P99: 20}, CommandsPerSecond: new(6.0), PerBuyer: []int64{3, 7},
			Audit: result.Audit{Done: true, OK: true}},
	}
	got := medianRow(rows)
	if got.Strategy != "fine" || got.Bought != 2 || got.WaitMS.P99 != 20 || got.CommandsPerSecond != nil ||
		!slices.Equal(got.PerBuyer, []int64{2, 8}) || got.Browsers != 0 {
		t.Errorf("%+v", got)
	}
	if got.Audit.OK || !got.Audit.Done || got.Audit.ItemProblems != 4 {
		t.Errorf("audit %+v", got.Audit)
	}
}

// TestRoundNotes: what is said of a row in several rounds is said once.
func TestRoundNotes(t *testing.T) {
	got := roundNotes(inRounds(9).Rows)
	if len(got) != 1 || got[0] != "watch 1x1 in 3 rounds, watch 5x1 in 3 rounds, watch 5x5 in 3 rounds: "+
		"warning: the market's server answered nobody for 1.7 s (the first of them)" {
		t.Errorf("%q", got)
	}
}

// TestManyNotes: a note that many rows share does not name them all.
func TestManyNotes(t *testing.T) {
	var rows []result.Row
	for i, strategy := range []string{"a", "b", "c", "d", "d", "e"} {
		rows = append(rows, result.Row{Strategy: strategy, Sellers: 1, Buyers: 1, Status: result.Complete, Trial: 1 + i,
			Warnings: []string{"odd", "odd"}}) // a row says it twice, in one round
	}
	for n, want := range map[int]string{
		5: "a 1x1 in 1 round, b 1x1 in 1 round, c 1x1 in 1 round, d 1x1 in 2 rounds: warning: odd",
		6: "a 1x1 in 1 round, b 1x1 in 1 round, c 1x1 in 1 round, and 3 other rows: warning: odd",
	} {
		if got := roundNotes(rows[:n]); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFewRounds: an interrupted run shows its complete rounds without an interval.
func TestFewRounds(t *testing.T) {
	if text := drawn(t, Run(inRounds(8)), Text, Options{}); strings.Contains(text, "±") {
		t.Errorf("an interval of a run that was stopped:\n%s", text)
	}
	text := drawn(t, Run(inRounds(4)), Text, Options{})
	for _, want := range []string{
		"; 3 of 9 rounds complete;\n", "Rows: medians of 3 of 9 rounds, without intervals\n",
		"10 not decided, 1 not judged", "5. fine: purchases need no retries: not decided (3 of 9 rounds)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "±") {
		t.Errorf("there is an interval in\n%s", text)
	}
}

package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// measured is a complete row.
func measured(strategy string, trial int, rate float64) result.Row {
	return result.Row{
		Point: point(strategy), Trial: trial, Status: stored.Complete, Seconds: 1e6,
		Bought: int64(math.Round(1e6 * rate)), Audit: result.AuditSummary{Done: true, OK: true},
	}
}

func point(strategy string) result.Point {
	return result.Point{Strategy: strategy, Mix: result.Mix{Sellers: 5, Buyers: 5}}
}

// comparison is a run of a and b with one round for each two of their purchases/s.
func comparison(margin float64, rates ...[2]float64) *runs.Run {
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	run.Manifest.Config = runs.Config{
		Points: []result.Point{point("b"), point("a")}, Trials: len(rates), Margin: &margin,
	}
	for i, r := range rates {
		run.Rows = append(run.Rows, measured("a", i+1, r[0]), measured("b", i+1, r[1]))
	}
	return run
}

func times(ratios ...float64) [][2]float64 {
	var rates [][2]float64
	for i, r := range ratios {
		b := 8000 / float64(i+1)
		rates = append(rates, [2]float64{b * r, b})
	}
	return rates
}

func only(t *testing.T, run *runs.Run) Comparison {
	t.Helper()
	all := Of(run)
	if len(all) != 1 {
		t.Fatalf("%d comparisons, want 1", len(all))
	}
	return all[0]
}

// TestWords: one for each way in which an interval can lie about 1 and the margin. Of 6
// ratios it ends at the lowest and the highest, of 9 at the second and the eighth.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		ratios    []float64
		want      Conclusion
		low, high float64
	}{
		{[]float64{1.2, 1.3, 1.1, 1.4, 1.25, 1.2}, Faster, 1.1, 1.4},
		{[]float64{0.8, 0.7, 0.9, 0.6, 0.75, 0.8}, Slower, 0.6, 0.9},
		{[]float64{0.5, 1.2, 1.3, 1.1, 1.4, 1.25, 1.2, 1.15, 9}, Faster, 1.1, 1.4},
		{[]float64{1.01, 0.99, 1.02, 0.98, 1, 1}, NoDifference, 0.98, 1.02},
		{[]float64{1.01, 1.02, 1.02, 1.03, 1.01, 1.02}, NoDifference, 1.01, 1.03}, // it does not matter
		{[]float64{1.04, 1.06, 1.02, 1.03, 1.01, 1.02}, Faster, 1.01, 1.06},
		{[]float64{1.04, 1.06, 0.98, 1.03, 1.01, 1.02}, Undecided, 0.98, 1.06},
		// No number of rounds that anyone would wait for.
		{[]float64{0.5, 2, 0.5, 2, 0.5, 2}, Undecided, 0.5, 2},
	} {
		got := only(t, comparison(0.05, times(c.ratios...)...))
		if got.Verdict != c.want || got.Reason != "" || got.Rounds != len(c.ratios) {
			t.Errorf("%v: %+v, want %q", c.ratios, got, c.want)
		}

		if !(math.Abs(got.Low-c.low) < 1e-9 && math.Abs(got.High-c.high) < 1e-9) {
			t.Errorf("%v: the interval is %v to %v, want %v to %v",
				c.ratios, got.Low, got.High, c.low, c.high)
		}
	}
}

// TestOrderDoesNotMatter: where a is faster than b, b is slower than a, and the
// rest is the same.
func TestOrderDoesNotMatter(t *testing.T) {
	other := map[Conclusion]Conclusion{
		Faster: Slower, Slower: Faster, NoDifference: NoDifference,
		Undecided: Undecided,
	}

	rapid.Check(t, func(t *rapid.T) {
		margin := rapid.Float64Range(0, 0.5).Draw(t, "margin")

		var rates, swapped [][2]float64
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			a, b := rapid.Float64Range(1, 1.3).Draw(t, "a"), rapid.Float64Range(1, 1.3).Draw(t, "b")
			rates, swapped = append(rates, [2]float64{a, b}), append(swapped, [2]float64{b, a})
		}

		ab, ba := Of(comparison(margin, rates...))[0], Of(comparison(margin, swapped...))[0]

		// The ratio of b to a is the inverse of that of a to b.
		near := func(x, y float64) bool {
			return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x*y-1) < 1e-9
		}
		if ba.Verdict != other[ab.Verdict] || !near(ab.Ratio, ba.Ratio) ||
			!near(ab.Low, ba.High) || !near(ab.High, ba.Low) {
			t.Fatalf("%+v\n%+v", ab, ba)
		}
	})
}

// TestManyPairs: with 15 pairs an interval needs a confidence of 99.67%, which
// 10 rounds give and 9 do not.
func TestManyPairs(t *testing.T) {
	for _, c := range []struct{ pairs, fewest int }{
		{1, 6}, {2, 7}, {3, 7}, {5, 8}, {6, 8}, {12, 9}, {13, 10}, {15, 10}, {45, 11},
	} {
		if got := Fewest(c.pairs); got != c.fewest {
			t.Errorf("%d pairs need %d rounds, want %d", c.pairs, got, c.fewest)
		}
	}

	for _, rounds := range []int{9, 10} {
		run := comparison(0.05)
		strategies := strings.Split("abcdef", "")
		// With an axis every pair is compared, and not only all others with the first.
		run.Manifest.Config.Points, run.Manifest.Config.Axes = nil, []runs.Axis{{Name: runs.AxisClients}}
		for _, s := range strategies {
			run.Manifest.Config.Points = append(run.Manifest.Config.Points, point(s))
		}
		run.Manifest.Config.Trials = rounds

		for trial := 1; trial <= rounds; trial++ {
			for i, s := range strategies {
				run.Rows = append(run.Rows, measured(s, trial, math.Pow(0.5, float64(i))))
			}
		}

		all := Of(run)
		if len(all) != 15 || all[0].B != "b" || all[14].A != "e" || all[14].B != "f" {
			t.Fatalf("the pairs are %v", all)
		}

		for _, c := range all {
			if math.Abs(c.Confidence-(1-0.05/15)) > 1e-12 {
				t.Errorf("%s and %s at %v", c.A, c.B, c.Confidence)
			}

			decided := c.Verdict == Faster && !math.IsNaN(c.Low) && c.Reason == ""
			told := c.Reason == "9 rounds give no interval at 99.67%" && math.IsNaN(c.Low) &&
				c.Verdict == Undecided
			if rounds == 9 && !told || rounds == 10 && !decided {
				t.Errorf("%d rounds: %+v", rounds, c)
			}
		}
	}
}

// TestCutShort: rounds that were planned and are not there leave it undecided,
// however clear the others are.
func TestCutShort(t *testing.T) {
	run := comparison(0.05, times(2, 2, 2, 2, 2, 2, 2, 2, 2)...)
	run.Rows = run.Rows[:15] // of the eighth round, only one row
	run.Status = stored.Interrupted

	got := only(t, run)
	if got.Verdict != Undecided || got.Reason != "7 of 9 rounds" ||
		got.Rounds != 7 || !(got.Ratio > 1.99) {
		t.Errorf("%+v", got)
	}

	run.Rows[14].Status = stored.Interrupted
	again := only(t, run)
	if fmt.Sprint(again.Reason, again.Rounds) != fmt.Sprint(got.Reason, got.Rounds) {
		t.Errorf("%+v", again)
	}

	run.Rows = nil
	if got := only(t, run); got.Reason != "0 of 9 rounds" ||
		!math.IsNaN(got.Ratio) || !math.IsNaN(got.MedianA) {
		t.Errorf("%+v", got)
	}
}

// TestUnfitRows: a row that must not be judged leaves its pair undecided, and
// the reason says which.
func TestUnfitRows(t *testing.T) {
	for want, spoil := range map[string]func(*result.Row){
		"b failed its audit in round 3": func(r *result.Row) { r.Audit.OK = false },
		"b was not audited in round 3":  func(r *result.Row) { r.Audit.Done = false },
	} {
		run := comparison(0.05, times(2, 2, 2, 2, 2, 2)...)
		spoil(&run.Rows[5])
		if got := only(t, run); got.Verdict != Undecided ||
			!strings.HasPrefix(got.Reason, want) || !math.IsNaN(got.Ratio) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// TestDisturbed: a round that other processes disturbed is left out, whichever row they hit,
// and nothing is decided where the rest is too few.
func TestDisturbed(t *testing.T) {
	for disturbed, want := range map[int]Comparison{
		0: {Verdict: NoDifference, Rounds: 9},
		3: {Verdict: Slower, Rounds: 6},
		4: {
			Verdict: Undecided, Rounds: 5,
			Reason: "other processes took 43% of this machine's time in 4 of 9 rounds",
		},
		9: {
			Verdict: Undecided,
			Reason:  "other processes took 43% of this machine's time in 9 of 9 rounds",
		},
	} {
		// Undisturbed, the interval is 0.8 to 1.2: a margin of 0.5 makes that no difference.
		run := comparison(0.5, times(0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 1.2, 1.2, 1.2)...)
		if disturbed > 0 {
			*run.Manifest.Config.Margin = 0.05
		}

		// From the last round back, by turns b's row and a's: either spoils its round.
		for i := range disturbed {
			run.Rows[len(run.Rows)-1-2*i-i%2].Warn(result.Busy, 0.43, "")
		}

		for i := range run.Rows {
			run.Rows[i].Warn(result.Busy, 0.19, "") // which every round bears
		}

		if got := only(t, run); got.Verdict != want.Verdict ||
			got.Rounds != want.Rounds || got.Reason != want.Reason {
			t.Errorf("%d of 9 rounds disturbed: %s of %d rounds: %s",
				disturbed, got.Verdict, got.Rounds, got.Reason)
		}
	}
}

// TestNothingBought: a strategy that buys nothing is slower than one that does, and no
// different from another that does not.
func TestNothingBought(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want Conclusion
	}{{0, 100, Slower}, {100, 0, Faster}, {0, 0, NoDifference}} {
		rates := slices.Repeat([][2]float64{{c.a, c.b}}, 6)
		got := only(t, comparison(0.05, rates...))
		if got.Verdict != c.want || got.MedianA != c.a || got.MedianB != c.b || !math.IsNaN(got.Ratio) {
			t.Errorf("%v: %+v, want %q", c, got, c.want)
		}
	}
}

// TestItself: where a strategy differs from itself nothing is decided, and the reason
// says so. Else it changes nothing.
func TestItself(t *testing.T) {
	for _, c := range []struct {
		again float64 // times the rate of b
		want  Conclusion
	}{{1, Faster}, {1.2, Undecided}, {0.8, Undecided}} {
		run := comparison(0.05, times(2, 2, 2, 2, 2, 2, 2, 2, 2)...)
		run.Manifest.Config.Points = append(run.Manifest.Config.Points, point("b#2"))
		for _, r := range run.Rows[:18] {
			if r.Strategy == "b" {
				run.Rows = append(run.Rows, measured("b#2", r.Trial, c.again*r.PerSecond()))
			}
		}

		all := Of(run)
		doubted := strings.HasSuffix(all[0].Reason, "than itself at 5x5")
		if len(all) != 2 || all[0].Verdict != c.want ||
			doubted != (c.again != 1) || math.IsNaN(all[0].Low) {
			t.Errorf("%v times itself: %+v", c.again, all)
		}

		for _, other := range all {
			if doubted && (other.Verdict != Undecided || other.Reason != all[0].Reason) {
				t.Errorf("%v times itself: %+v", c.again, other)
			}
		}
	}
}

// TestNoComparison: other runs have none.
func TestNoComparison(t *testing.T) {
	run := comparison(0.05, times(2, 2, 2, 2, 2, 2)...)
	run.Manifest.Config.Margin = nil
	if got := Of(run); got != nil {
		t.Errorf("%+v", got)
	}
}

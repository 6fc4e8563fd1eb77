package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// opened is a run of two strategies at rising rates, of which the second strategy reaches only the first.
func opened(rounds int) *result.Run {
	run := inRounds(rounds, "watch", "fine")
	run.Manifest.Config.Rates, run.Manifest.Config.SLOMS, run.Manifest.Config.Mixes = []float64{1000, 2000}, 10, []string{"5x5"}
	closed := run.Rows
	run.Rows = nil
	for _, r := range closed {
		if r.Buyers != 5 {
			continue
		}
		for i, rate := range run.Manifest.Config.Rates {
			r.Open = &result.Open{Asked: rate, Offered: rate, Reached: rate}
			if r.WaitMS.P99 = float64(i + 2); r.Strategy == "fine" && i > 0 {
				r.Open.Reached, r.WaitMS.P99 = rate/2, 900
			}
			run.Rows = append(run.Rows, r)
		}
	}
	return run
}

// TestRates: a line for each strategy, a ring where a rate was not reached, and the latency that was asked for.
func TestRates(t *testing.T) {
	f := figureOf(t, opened(6), "rate")
	s := drawnOn(f)
	has(t, f, s, "watch", "2k/s reached", "fine", "1k/s reached", "asked for: below 10 ms")
	if !strings.Contains(f.Alt, "fine 5x5: 2 ms at 1k/s and 900 ms at 2k/s (not reached); 1k/s reached") {
		t.Errorf("it says: %s", f.Alt)
	}
	legible(t, "open loop", f)
	for _, f := range Of(opened(1)) { // which asks for a rate, so that purchases/s and their cost say nothing
		if f.Name == "throughput" || f.Name == "cost" {
			t.Errorf("an open loop has the figure %s", f.Name)
		}
	}
}

// TestSplit: bars whose parts are told in percent, mix by mix.
func TestSplit(t *testing.T) {
	f := figureOf(t, inRounds(6, "watch", "fine"), "time")
	s := drawnOn(f)
	has(t, f, s, "50%", "30%", "20%", "1 ms", "waiting for locks", "holding locks", "the rest")
	if slices.ContainsFunc(s.texts, func(p placed) bool { return p.text == "tries thrown away" }) {
		t.Error("the key explains a part that there is not")
	}
	if !strings.Contains(f.Alt, "fine 5x5 1 ms: 50% waiting for locks, 30% holding locks, 20% the rest") {
		t.Errorf("it says: %s", f.Alt)
	}
}

func TestTries(t *testing.T) {
	run := inRounds(6, "watch", "fine")
	f := figureOf(t, run, "tries")
	s := drawnOn(f)
	has(t, f, s, "1.5, p99 7", "mean", "99th percentile")
	if n := s.dots(series[0]); n != 4+1 {
		t.Errorf("%d dots", n)
	}
	for i := range run.Rows {
		run.Rows[i].Tries.Max = 1
	}
	for _, f := range Of(run) {
		if f.Name == "tries" {
			t.Errorf("each was tried once, and is drawn: %s", f.Alt)
		}
	}
}

// TestFairness draws what was stored or, of an older run, what follows from the purchases of each buyer. One buyer alone
// is not unfair.
func TestFairness(t *testing.T) {
	run := inRounds(1, "watch", "fine")
	for i := range run.Rows {
		run.Rows[i].PerBuyer = []int64{10, 0}
		if run.Rows[i].Strategy == "fine" {
			run.Rows[i].Fairness = &result.Fairness{Jain: 0.9}
		}
	}
	f := figureOf(t, run, "fairness")
	s := drawnOn(f)
	has(t, f, s, "0.9; 0 to 10", "0.5; 0 to 10", "5 sellers, 5 buyers")
	if n := s.dots(series[0]); n != 2 {
		t.Errorf("%d dots", n)
	}
}

// TestCost takes the server's time where that is known, and commands where it is not.
func TestCost(t *testing.T) {
	run := inRounds(6, "watch", "fine")
	has(t, figureOf(t, run, "cost"), drawnOn(figureOf(t, run, "cost")), "40 us, 104/s", "40 us, 1k/s")
	for i := range run.Rows {
		run.Rows[i].Cost = nil
	}
	f := figureOf(t, run, "cost")
	has(t, f, drawnOn(f), "9 commands, 104/s")
	for i := range run.Rows {
		run.Rows[i].CommandsPerPurchase = 0
	}
	for _, f := range Of(run) {
		if f.Name == "cost" {
			t.Errorf("nothing is known of costs, and is drawn: %s", f.Alt)
		}
	}
}

// TestCourse: the median of rounds of equal steps, without the last step, which may be shorter.
func TestCourse(t *testing.T) {
	run := inRounds(3, "fine")
	run.Manifest.Config.Mixes, run.Rows = []string{"1x1"}, slices.DeleteFunc(run.Rows, func(r result.Row) bool { return r.Buyers > 1 })
	for i := range run.Rows {
		run.Rows[i].Series = &result.Series{StepSeconds: 0.5, Purchases: []int64{int64(i), 10, 1}}
	}
	run.Rows[1].Series.Purchases = []int64{1, 10, 10, 1}
	points, end := course(groupsOf(run)[0])
	want := []point{{x: 0.25, y: 2, low: 0, high: 4}, {x: 0.75, y: 20, low: 20, high: 20}}
	if !slices.Equal(points, want) || end != 1 {
		t.Errorf("%+v until %v", points, end)
	}
	run.Rows[2].Series.StepSeconds = 1e-300
	if points, _ := course(groupsOf(run)[0]); len(points) != 2 {
		t.Errorf("with a round of impossible steps: %+v", points)
	}
}

// TestManyTogether: what does not fit one panel goes on in others, about as many in each, with the rest behind.
func TestManyTogether(t *testing.T) {
	for n, want := range map[int]int{1: 1, 6: 6, 7: 4, 8: 4, 12: 6, 13: 5} {
		if got := evenly(n); got != want {
			t.Errorf("%d are drawn %d at a time, want %d", n, got, want)
		}
	}
	run := inRounds(1, "a", "b", "c", "d", "e", "f", "g", "h")
	f := figureOf(t, run, "cost")
	has(t, f, drawnOn(f), "5 sellers, 5 buyers", "5 sellers, 5 buyers, the slower ones")
	var faint int
	for _, d := range drawnOn(f).fills {
		if d.color == muted.faint(0x60) {
			faint++
		}
	}
	if faint != 2*8 { // each stands behind once under each mix
		t.Errorf("%d dots are behind", faint)
	}
}

// TestSweepOfWhatIsWrong: points that must not be judged are marked, and the first says why.
func TestSweepOfWhatIsWrong(t *testing.T) {
	for _, axes := range [][]result.Axis{{clientsAxis()}, {clientsAxis(), holdAxis()}} {
		run := sweptOver([]string{"fine", "lua"}, axes...)
		run.Sweep.Points[1].Strategies[1].Problem = "failed its audit in round 2"
		f := figureOf(t, run, "sweep")
		s := drawnOn(f)
		if !strings.Contains(f.Alt, "not to be judged, as lua at "+run.Sweep.Points[1].Place+", which failed its audit in round 2.") {
			t.Errorf("it says: %s", f.Alt)
		}
		star := slices.ContainsFunc(s.texts, func(p placed) bool { return strings.HasSuffix(p.text, "*") })
		if rings := s.dots(paper); len(axes) == 1 && rings != 1 || len(axes) == 2 && !star {
			t.Errorf("over %d axes: %d rings, a star %t", len(axes), rings, star)
		}
		if len(axes) == 1 && !strings.Contains(f.Alt, "1.5k at 2 (not to be judged)") {
			t.Errorf("it says: %s", f.Alt)
		}
	}
}

// TestThroughputHasADotForEachRow, and whiskers where there are rounds enough for an interval.
func TestThroughputHasADotForEachRow(t *testing.T) {
	for _, c := range []struct{ rounds, whiskers int }{{1, 0}, {5, 0}, {6, 4}, {9, 4}} {
		f := figureOf(t, inRounds(c.rounds, "watch", "fine"), "throughput")
		s := drawnOn(f)
		if dots, whiskers := s.dots(series[0]), s.whiskers(series[0]); dots != 4 || whiskers != c.whiskers {
			t.Errorf("%d rounds have %d dots and %d whiskers", c.rounds, dots, whiskers)
		}
		has(t, f, s, "watch", "fine", "1 seller, 1 buyer", "5 sellers, 5 buyers")
		if !strings.Contains(f.Alt, "fine 5x5 ") || strings.Contains(f.Alt, "without intervals") {
			t.Errorf("of %d rounds it says: %s", c.rounds, f.Alt)
		}
	}
	cut := inRounds(9, "watch", "fine")
	cut.Status, cut.Rows = result.Interrupted, cut.Rows[:len(cut.Rows)-1]
	f := figureOf(t, cut, "throughput")
	if s := drawnOn(f); s.dots(series[0]) != 4 || s.whiskers(series[0]) != 0 {
		t.Errorf("8 of 9 rounds have %d dots and %d whiskers", s.dots(series[0]), s.whiskers(series[0]))
	}
	if !strings.Contains(f.Title, "interrupted") || !strings.Contains(f.Alt, "medians of 8 of 9 rounds, without intervals") {
		t.Errorf("8 of 9 rounds: %s: %s", f.Title, f.Alt)
	}
}

// TestThroughputBesideTheBook shows each published number where the run reproduces it.
func TestThroughputBesideTheBook(t *testing.T) {
	run := inRounds(6, "watch", "fine")
	if f := figureOf(t, run, "throughput"); strings.Contains(f.Alt, "book") {
		t.Errorf("a run that reproduces nothing: %s", f.Alt)
	}
	run.Manifest.Config.Reproduces = reference.Tables()
	f := figureOf(t, run, "throughput")
	s := drawnOn(f)
	has(t, f, s, "104/s, book 450/s", "504/s, book <10/s", "published in Redis in Action")
}

// TestThroughputOfWhatIsWrong: a row that must not be judged is drawn apart, and says why.
func TestThroughputOfWhatIsWrong(t *testing.T) {
	run := inRounds(1, "watch", "fine")
	run.Rows[0].Audit.OK = false
	run.Rows[2].PurchasesPerSecond = 0
	f := figureOf(t, run, "throughput")
	s := drawnOn(f)
	if s.dots(warn) != 1 {
		t.Errorf("%d dots are marked", s.dots(warn))
	}
	has(t, f, s, "failed its audit", "nothing bought")
	if !strings.Contains(f.Alt, "which failed its audit") {
		t.Errorf("it says: %s", f.Alt)
	}
}

// TestComparisonsPointUp: the faster stands first, and the ratio with its interval is turned round with it.
func TestComparisonsPointUp(t *testing.T) {
	ratio, low, high, margin := 0.5, 0.4, 0.8, 0.05
	run := inRounds(9, "watch", "fine")
	run.Manifest.Config.Margin = &margin
	run.Comparisons = []result.Comparison{
		{A: "watch", B: "fine", Mix: "5x5", Rounds: 9, Ratio: &ratio, Low: &low, High: &high, Verdict: result.Slower},
		{A: "watch", B: "fine", Mix: "1x1", Verdict: result.Undecided, Reason: "4 of 9 rounds"},
	}
	f := figureOf(t, run, "comparison")
	s := drawnOn(f)
	has(t, f, s, "fine to watch", "2x (1.25x to 2.5x)", "watch to fine", "not decided", "4 of 9 rounds")
	if s.dots(series[0]) != 2 || s.whiskers(series[0]) != 1 { // one explains the shape
		t.Errorf("%d dots, %d whiskers", s.dots(series[0]), s.whiskers(series[0]))
	}
	if !strings.Contains(f.Alt, "fine to watch at 5x5: 2x (1.25x to 2.5x), faster") {
		t.Errorf("it says: %s", f.Alt)
	}
}

// TestSweepLines: a dot and a whisker for each point, and what was found.
func TestSweepLines(t *testing.T) {
	run := sweptOver([]string{"fine", "lua"}, clientsAxis())
	f := figureOf(t, run, "sweep")
	s := drawnOn(f)
	if n := s.dots(series[0]); n != 6+1 { // one explains the line
		t.Errorf("%d dots", n)
	}
	has(t, f, s, "fine", "lua", "64", "The first is best at 1 of 2 points.")
	if !strings.Contains(f.Alt, "lua 1k at 1, 1.5k at 2, 2.5k at 4, 4.5k at 8, 8.5k at 16 and 32.5k at 64") ||
		!strings.Contains(f.Alt, "Nothing else was found.") {
		t.Errorf("it says: %s", f.Alt)
	}
	f = figureOf(t, sweptOver([]string{"fine", "lua"}, holdAxis()), "sweep")
	s = drawnOn(f)
	has(t, f, s, "0", "1 ms", "10 ms") // a log scale has no zero
}

// TestSweepMaps: a cell for each strategy at each point, and the best of each.
func TestSweepMaps(t *testing.T) {
	run := sweptOver([]string{"fine", "lua"}, clientsAxis(), holdAxis())
	run.Sweep.Points[0].Best = []string{"fine", "lua"}
	f := figureOf(t, run, "best")
	s := drawnOn(f)
	has(t, f, s, "2 of 2", "2x", "17 of 18", "1 of 18")
	if !strings.Contains(f.Alt, "at 1 and 0 not decided between fine and lua; at 2 and 0 fine, 2x") {
		t.Errorf("it says: %s", f.Alt)
	}
	f = figureOf(t, run, "sweep")
	cells := 0
	for _, text := range drawnOn(f).texts {
		if strings.HasSuffix(text.text, "k") && !strings.HasPrefix(text.text, "from") || text.text == "500" {
			cells++
		}
	}
	if cells < 2*18-3 { // lua makes 750 and so on at some
		t.Errorf("%d cells", cells)
	}
}

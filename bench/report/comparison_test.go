package report

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// compared is a run that compares four strategies in nine rounds, with the chance of a seed.
func compared(names ...string) *result.Run {
	res := complete()
	within := 0.05
	c := &res.Manifest.Config
	c.Strategies, c.Mixes, c.Trials, c.Margin = names, []string{"5x5"}, 9, &within
	rng := rand.New(rand.NewPCG(1, 1))
	res.Rows = nil
	for trial := 1; trial <= c.Trials; trial++ {
		for i, name := range names {
			bought := []float64{40_000, 12_000, 39_900, 39_000}[i] * (1 + []float64{0.02, 0.02, 0.02, 0.2}[i]*rng.NormFloat64())
			r := measuredRow(name, 5, 5, int64(bought)+100, int64(bought), 0, 0.44)
			r.Trial = trial
			res.Rows = append(res.Rows, r)
		}
	}
	res.Comparisons = compare.Rounds(res)
	return res
}

// inTwoRuns compares rows of two runs that differ in more than they should.
func inTwoRuns(t *testing.T, rows ...string) *Document {
	t.Helper()
	old, now := compared(rows...), compared(rows...)
	now.Manifest.ServerVersion, now.Manifest.Config.DurationSeconds = "8.0.6", 1
	for i := range now.Rows {
		if now.Rows[i].Strategy == rows[1] {
			now.Rows[i].PurchasesPerSecond *= 1.4
		}
	}
	old.Rows[len(rows)-1].Audit.OK = false
	one := measuredRow("lua", 1, 1, 10, 10, 0, 1)
	one.Open = &result.Open{Asked: 50}
	now.Rows = append(now.Rows, one, measuredRow("unsafe", 1, 1, 10, 10, 0, 1))
	runs, err := compare.Stored(old, now, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	return Runs("old.json", "results/new/run.json", runs)
}

func TestGoldenComparison(t *testing.T) {
	names := []string{"fine", "coarse", "fine:poll=1ms", "watch"}
	res := compared(names...)
	section := &Document{sections: []section{comparisonSection(res.Comparisons, 0.05)}}
	golden(t, "comparison.txt", []byte(drawn(t, section, Text, Options{})))
	golden(t, "comparison.md", []byte(drawn(t, section, Markdown, Options{})))
	if all := drawn(t, Run(res), Text, Options{}); !strings.HasSuffix(all, drawn(t, section, Text, Options{})) {
		t.Errorf("the report of the run does not end with the comparison:\n%s", all)
	}
	for format, file := range map[string]string{Text: "runs.txt", Markdown: "runs.md", CSV: "runs.csv", JSON: "runs.json"} {
		golden(t, file, []byte(drawn(t, inTwoRuns(t, names...), format, Options{})))
	}
}

// TestWideComparison: where the names leave no room for a table, a text has the sentences alone.
func TestWideComparison(t *testing.T) {
	names := []string{"fine:set-px+watchdog:ttl=500ms:renew=100ms", "fine-wallet:set-px+watchdog:ttl=500ms:renew=100ms"}
	both := &Document{sections: []section{comparisonSection(compared(names...).Comparisons, 0.05)}}
	old, now := compared(names...), compared(names...)
	old.Manifest.CPU = strings.Repeat("long ", 20)
	stored, err := compare.Stored(old, now, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	runs := Runs("old.json", "new.json", stored)
	for _, d := range []*Document{both, runs} {
		text := drawn(t, d, Text, Options{})
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(line) > Width+len("\n") {
				t.Errorf("%d columns: %q", len(line)-1, line)
			}
		}
		if page := drawn(t, d, Markdown, Options{}); !strings.Contains(page, "| "+names[0]) {
			t.Errorf("the Markdown has no table:\n%s", page)
		}
	}
	if text := drawn(t, both, Text, Options{}); strings.Contains(text, "verdict") ||
		!strings.Contains(strings.Join(strings.Fields(text), " "), names[0]+" is faster than "+names[1]+" at 5x5: 3.3") {
		t.Errorf("drawn as\n%s", text)
	}
}

// TestUndecidedSentences: each reason has its words.
func TestUndecidedSentences(t *testing.T) {
	low, center, high := 0.9, 1.0, 1.1
	c := result.Comparison{A: "a", B: "b", Mix: "5x5", Rounds: 9, Ratio: &center, Low: &low, High: &high, Verdict: result.Undecided}
	const begin = "Whether a or b is faster at 5x5 is not decided: "
	for _, want := range []string{
		"1.000 times the purchases/s (0.900 to 1.100); by the spread of these 9 rounds, 60 would not do: measure for a longer --duration.",
		"1.000 times the purchases/s (0.900 to 1.100); about 21 rounds might do, by the spread of these 9.",
		"4 of 9 rounds.",
	} {
		if got := sentence(c, 0.05); got != begin+want {
			t.Errorf("got  %s\nwant %s", got, begin+want)
		}
		if c.MightDo > 0 {
			c.Reason = "4 of 9 rounds"
		}
		c.MightDo = 21
	}
}

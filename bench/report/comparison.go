package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// comparisonSection is what is known about each pair: a table, and a sentence for each.
func comparisonSection(all []result.Comparison, margin float64) section {
	sure := percent(all[0].Confidence)
	if len(all) > 1 {
		sure += ", so that all hold at once with 95%"
	}
	s := section{
		title: "Comparison",
		lines: []string{fmt.Sprintf("purchases/s of a over those of b, divided inside each round: the median and its interval "+
			"(at %s). No difference: inside 1 +- %s.", sure, percent(margin))},
		table: &table{header: headings(3, "a", "b", "mix", "rounds", "a/s", "b/s", "ratio", "from", "to", "verdict")},
	}
	s.table.header[9].left = true
	s.table.header[3].spare, s.table.header[4].spare, s.table.header[5].spare = 3, 2, 1
	for _, c := range all {
		s.table.rows = append(s.table.rows, append(cells(clean(c.A), clean(c.B), clean(c.Mix)), figures(c)...))
		s.notes = append(s.notes, sentence(c, margin))
	}
	s.meaning = comparisonMeaning(all)
	return fitted(s)
}

// figures are the numbers of a comparison and its verdict.
func figures(c result.Comparison) []cell {
	verdict := cell{text: clean(string(c.Verdict))}
	return append(cells(thousands(int64(c.Rounds)), number(c.PerSecondA), number(c.PerSecondB), ratio(c.Ratio), ratio(c.Low),
		ratio(c.High)), verdict)
}

// sentence says what is known about a pair.
func sentence(c result.Comparison, margin float64) string {
	a, b := clean(c.A), clean(c.B)
	switch c.Verdict {
	case result.Faster, result.Slower:
		return fmt.Sprintf("%s is %s than %s at %s: %s.", a, c.Verdict, b, clean(c.Mix), measuredRatio(c))
	case result.NoDifference:
		return fmt.Sprintf("There is no difference between %s and %s at %s: %s, within %s.", a, b, clean(c.Mix), measuredRatio(c),
			percent(margin))
	}
	return fmt.Sprintf("Whether %s or %s is faster at %s is not decided: %s.", a, b, clean(c.Mix), undecided(c))
}

// measuredRatio is "1.213 times the purchases/s (1.102 to 1.305)".
func measuredRatio(c result.Comparison) string {
	return fmt.Sprintf("%s times the purchases/s (%s to %s)", ratio(c.Ratio), ratio(c.Low), ratio(c.High))
}

// undecided says why, and what might help.
func undecided(c result.Comparison) string {
	switch {
	case c.Reason != "":
		return clean(c.Reason)
	case c.MightDo > 0:
		return fmt.Sprintf("%s; about %d rounds might do, by the spread of these %d", measuredRatio(c), c.MightDo, c.Rounds)
	}
	return fmt.Sprintf("%s; by the spread of these %d rounds, %d would not do: measure for a longer --duration",
		measuredRatio(c), c.Rounds, compare.MaxRounds)
}

// ratio prints a ratio, with three digits after the point near 1, or none for nil.
func ratio(v *float64) string {
	switch {
	case v == nil:
		return none
	case *v > 0.1 && *v < 9.995:
		return fmt.Sprintf("%.3f", *v)
	}
	return number(*v)
}

// percent prints a fraction: 5%, 98.3%.
func percent(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*10000)/100, 'g', 4, 64) + "%"
}

// Runs is the report of two stored runs: what differs between them first, then each row that both have. The names are
// those by which the user knows them.
func Runs(oldName, newName string, runs compare.Runs) *Document {
	d := &Document{stored: plainValue{runs}}
	d.head = []string{fmt.Sprintf("old: %s; new: %s", clean(oldName), clean(newName))}
	if len(runs.Differ) > 0 {
		t := &table{header: headings(3, "", "old", "new")}
		for _, diff := range runs.Differ {
			t.rows = append(t.rows, cells(clean(diff.What), known(diff.Old), known(diff.New)))
		}
		d.sections = append(d.sections, onlyLines(section{
			title:   "The runs differ",
			lines:   []string{"Each of these could be the cause of a difference, or hide one."},
			table:   t,
			meaning: differMeaning(runs),
		}))
	}
	d.sections = append(d.sections, runsSection(runs))
	d.records = [][]string{{"strategy", "mix", "trials", "old_per_second", "new_per_second", "ratio", "low", "high", "verdict",
		"reason"}}
	for _, c := range runs.Rows {
		d.records = append(d.records, []string{clean(c.A), clean(c.Mix), exact(c.Rounds), exact(c.PerSecondB), exact(c.PerSecondA),
			exact(c.Ratio), exact(c.Low), exact(c.High), clean(string(c.Verdict)), clean(c.Reason)})
	}
	return d
}

// onlyLines is a section whose text has a line for each row of the table where that is too wide for it.
func onlyLines(s section) section {
	if _, total := measure(s.table); total <= Width {
		return s
	}
	s.prose = [][]cell{cells(s.lines[0])}
	for _, row := range s.table.rows {
		for _, line := range wrap(fmt.Sprintf("%s: %s; now %s", row[0].text, row[1].text, row[2].text), Width) {
			s.prose = append(s.prose, cells(line))
		}
	}
	return s
}

// runsSection compares the rows that two runs have in common.
func runsSection(runs compare.Runs) section {
	s := section{
		title: "Comparison",
		lines: []string{fmt.Sprintf("purchases/s of the new run over those of the old one, of medians. Their rounds are not the same "+
			"ones: it is faster or slower only where the two 95%% intervals are disjoint. No difference: inside 1 +- %s.",
			percent(runs.Margin))},
		table: &table{header: headings(2, "strategy", "mix", "trials", "old/s", "new/s", "ratio", "from", "to", "verdict")},
	}
	s.table.header[8].left = true
	s.table.header[2].spare, s.table.header[3].spare, s.table.header[4].spare = 3, 2, 1
	for _, c := range runs.Rows {
		all := figures(c)
		all[1], all[2] = all[2], all[1] // the old run first
		s.table.rows = append(s.table.rows, append(cells(clean(c.A), clean(c.Mix)), all...))
		s.notes = append(s.notes, runSentence(c, runs.Margin))
	}
	for _, alone := range []struct {
		what  string
		names []string
	}{{"Only in the old run", runs.OldOnly}, {"Only in the new run", runs.NewOnly},
		{"Left out, because the load was not a closed loop without faults", runs.LeftOut}} {
		if len(alone.names) > 0 {
			s.notes = append(s.notes, fmt.Sprintf("%s: %s.", alone.what, clean(strings.Join(alone.names, ", "))))
		}
	}
	s.meaning = runsMeaning(runs.Rows)
	return fitted(s)
}

// runSentence says what is known about a row in two runs.
func runSentence(c result.Comparison, margin float64) string {
	row := clean(c.A) + " " + clean(c.Mix)
	switch c.Verdict {
	case result.Faster, result.Slower:
		return fmt.Sprintf("%s is %s in the new run: %s.", row, c.Verdict, measuredRatio(c))
	case result.NoDifference:
		return fmt.Sprintf("%s is no different in the new run: %s, within %s.", row, measuredRatio(c), percent(margin))
	case result.Undecided:
		if c.Reason == "" {
			return fmt.Sprintf("%s is not decided: %s; the intervals of the two runs overlap. Measured in the same rounds, less is "+
				"left to chance.", row, measuredRatio(c))
		}
	}
	return fmt.Sprintf("%s is not decided: %s.", row, clean(c.Reason))
}

package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// ComparisonHeading is that of the block with what compares strategies.
const ComparisonHeading = "Comparison"

func comparisonBlocks(run *runs.Run, all []compare.Comparison) []Block {
	if len(all) == 0 {
		return nil
	}
	most := 1 + *run.Manifest.Config.Margin
	note := fmt.Sprintf("purchases/s of a over those of b, divided inside each round: the median and its interval "+
		"(at %s, so that all hold at once with 95%%). No difference: from %s to %s.",
		percent(all[0].Confidence), ratio(1/most), ratio(most))
	return []Block{{Heading: ComparisonHeading, Table: ComparisonTable(all), Note: []string{note}}}
}

// ComparisonTable is what is known about each pair: verdict, ratio and
// interval, or why nothing is decided.
func ComparisonTable(all []compare.Comparison) *Table {
	t := NewTable("at", "a", "verdict", "b", "ratio", "interval", "a/s", "b/s", "rounds", "because").
		Wrapping("because")
	t.names = 2
	for _, c := range all {
		verdict := string(c.Verdict)
		if c.Verdict == compare.Faster || c.Verdict == compare.Slower {
			verdict += " than"
		}
		t.Add(c.Place, again(c.A), verdict, again(c.B), ratio(c.Ratio), interval(c), Number(c.PerSecondA, runs.PerSecond),
			Number(c.PerSecondB, runs.PerSecond), fmt.Sprint(c.Rounds), again(c.Reason))
	}
	return t.withoutIdleColumns("", none)
}

func ratio(v float64) string {
	if v > 0.1 && v < 9.995 {
		return fmt.Sprintf("%.3f", v)
	}
	return Number(v, runs.Plain)
}

func interval(c compare.Comparison) string {
	if math.IsNaN(c.Low) || math.IsNaN(c.High) {
		return none
	}
	return ratio(c.Low) + " to " + ratio(c.High)
}

// times is ": 1.213 times the purchases/s (1.102 to 1.305)", and nothing where
// there is no ratio.
func times(c compare.Comparison) string {
	if math.IsNaN(c.Ratio) {
		return ""
	}
	return fmt.Sprintf(": %s times the purchases/s (%s)", ratio(c.Ratio), interval(c))
}

func sweepBlocks(run *runs.Run, all []compare.Comparison) []Block {
	points := compare.Places(run, all)
	if !slices.ContainsFunc(points, func(p compare.Place) bool { return len(p.Best) > 0 }) {
		return nil // rounds are missing
	}

	t := NewTable("point", "best", "worst", "worst/best", "interval").Wrapping("best")
	for _, p := range points {
		cells := []string{p.Place, strings.Join(mapped(p.Best, again), ", ")}
		if l := p.Loss; l != nil {
			cells = append(cells, again(l.A), ratio(l.Ratio), interval(*l))
		}
		t.Add(cells...)
	}

	best := "best: none is known to be faster. worst: the choice that costs most, with its purchases/s over those of " +
		"the fastest."
	return []Block{{Heading: "Best", Table: t.withoutIdleColumns(""), Note: []string{best}}}
}

package view

import (
	"fmt"
	"math"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
)

// comparisonBlocks are what is known about each pair of strategies, if a run compares.
func comparisonBlocks(run *result.Run) []Block {
	all := compare.Of(run)
	if len(all) == 0 {
		return nil
	}
	note := fmt.Sprintf("purchases/s of a over those of b, divided inside each round: the median and its interval "+
		"(at %s, so that all hold at once with 95%%). No difference: inside 1 ± %s.",
		percent(all[0].Confidence), percent(*run.Manifest.Config.Margin))
	return []Block{{Heading: "Comparison", Table: ComparisonTable(all), Note: []string{note}}}
}

// ComparisonTable is what is known about each pair: verdict, ratio and interval, and if nothing is decided why.
func ComparisonTable(all []compare.Comparison) *Table {
	t := NewTable("a", "verdict", "b", "at", "ratio", "interval", "a/s", "b/s", "rounds", "because")
	for _, c := range all {
		verdict := string(c.Verdict)
		if c.Verdict == compare.Faster || c.Verdict == compare.Slower {
			verdict += " than"
		}
		t.Add(c.A, verdict, c.B, c.Place, ratio(c.Ratio), interval(c), Number(c.PerSecondA, result.PerSecond),
			Number(c.PerSecondB, result.PerSecond), fmt.Sprint(c.Rounds), c.Reason)
	}
	return t.without("", none)
}

// ratio writes a ratio, with three digits after the point near 1.
func ratio(v float64) string {
	if v > 0.1 && v < 9.995 {
		return fmt.Sprintf("%.3f", v)
	}
	return Number(v, result.Number)
}

// interval is "1.102 to 1.305", or none.
func interval(c compare.Comparison) string {
	if math.IsNaN(c.Low) || math.IsNaN(c.High) {
		return none
	}
	return ratio(c.Low) + " to " + ratio(c.High)
}

// times is ": 1.213 times the purchases/s (1.102 to 1.305)", and nothing where there is no ratio.
func times(c compare.Comparison) string {
	if math.IsNaN(c.Ratio) {
		return ""
	}
	return fmt.Sprintf(": %s times the purchases/s (%s)", ratio(c.Ratio), interval(c))
}

// sweepBlocks are the best at each point of a sweep.
func sweepBlocks(run *result.Run) []Block {
	points := sweep.Points(run)
	if len(points) == 0 {
		return nil
	}
	t := NewTable("point", "best", "worst", "worst/best", "interval")
	for _, p := range points {
		cells := []string{p.Place, strings.Join(p.Best, ", ")}
		if l := p.Loss; l != nil {
			cells = append(cells, l.A, ratio(l.Ratio), interval(*l))
		}
		t.Add(cells...)
	}
	best := "best: none is known to be faster. worst: the choice that costs most, with its purchases/s over those of " +
		"the fastest."
	return []Block{{Heading: "Best", Table: t.without(""), Note: []string{best}}}
}

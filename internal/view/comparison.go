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

	most := 1 + *run.Manifest.Config.Margin // without a margin nothing is compared
	what := "purchases/s"
	better := ""
	if !allOfPurchases(all) {
		what = "the metric"
		better = " " + whichIsBetter(run.Manifest.Config.Judged())
	}

	// "purchases/s of a over those of b", or "the metric of a over the metric of b".
	note := fmt.Sprintf("%s of a over %s of b, divided inside each round: the median and its interval "+
		"(at %s, so that all hold at once with 95%%). No difference: from %s to %s.%s", what,
		strings.Replace(what, "purchases/s", "those", 1), percent(all[0].Confidence), ratio(1/most), ratio(most), better)
	return []Block{{Heading: ComparisonHeading, Table: ComparisonTable(all), Note: []string{note}}}
}

func allOfPurchases(all []compare.Comparison) bool {
	return !slices.ContainsFunc(all, func(c compare.Comparison) bool { return !c.OfPurchases() })
}

// whichIsBetter says what higher and lower mean: "Higher is better of purchases/s, lower of
// p99."
func whichIsBetter(metrics []runs.JudgedMetric) string {
	var higher, lower []string
	for _, m := range metrics {
		if m.HigherBetter {
			higher = append(higher, m.Short)
		} else {
			lower = append(lower, m.Short)
		}
	}

	switch {
	case len(lower) == 0:
		return "Higher is better of " + listed(higher) + "."
	case len(higher) == 0:
		return "Lower is better of " + listed(lower) + "."
	}
	return "Higher is better of " + listed(higher) + ", lower of " + listed(lower) + "."
}

// ComparisonTable is what is known about each pair: verdict, ratio and interval, or why
// nothing is decided. Where purchases/s alone are compared no column names them.
func ComparisonTable(all []compare.Comparison) *Table {
	plain := allOfPurchases(all)
	headings := []string{"at", "metric", "a", "verdict", "b", "ratio", "interval", "of a", "of b", "rounds", "because"}
	if plain {
		headings[7], headings[8] = "a/s", "b/s"
	}
	t := NewTable(headings...).Wrapping("because")

	for _, c := range all {
		verdict := string(c.Verdict)
		if c.Verdict.Differs() {
			verdict += " than"
		}
		metric := c.Metric.Short
		if plain {
			metric = ""
		}
		t.Add(c.Place, metric, inWords(c.A), verdict, inWords(c.B), ratio(c.Ratio), interval(c),
			Number(c.MedianA, c.Metric.Unit), Number(c.MedianB, c.Metric.Unit), fmt.Sprint(c.Rounds), inWords(c.Reason))
	}

	// The first columns name a pair, up to its a. That of metrics is left out if no row has one.
	t = t.withoutIdleColumns("", none)
	t.names = 3
	if plain {
		t.names = 2
	}
	return t
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

// times is ": 1.213 times the purchases/s (1.102 to 1.305)", of the metric that is compared,
// and nothing where there is no ratio.
func times(c compare.Comparison) string {
	if math.IsNaN(c.Ratio) {
		return ""
	}
	what := "the purchases/s"
	if !c.OfPurchases() {
		what = "as much"
	}
	return fmt.Sprintf(": %s times %s (%s)", ratio(c.Ratio), what, interval(c))
}

func sweepBlocks(run *runs.Run, all []compare.Comparison) []Block {
	points := compare.Places(run, all)
	if !slices.ContainsFunc(points, func(p compare.Place) bool { return len(p.Best) > 0 }) {
		return nil // it is no sweep, or rounds are missing
	}

	t := NewTable("point", "best", "worst", "worst/best", "interval").Wrapping("best")
	for _, p := range points {
		cells := []string{p.Place, strings.Join(mapped(p.Best, inWords), ", ")}
		if l := p.Loss; l != nil {
			cells = append(cells, inWords(l.A), ratio(l.Ratio), interval(*l))
		}
		t.Add(cells...)
	}

	best := "best: none is known to be faster. worst: the choice that costs most, with its purchases/s over those of " +
		"the fastest."
	return []Block{{Heading: "Best", Table: t.withoutIdleColumns(""), Note: []string{best}}}
}

package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/metric"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/sweep"
)

func comparisonBlocks(run *runs.Run, all []compare.Comparison) []Block {
	if len(all) == 0 {
		return nil
	}
	most := 1 + *run.Manifest.Config.Margin
	note := fmt.Sprintf("purchases/s of a over those of b, divided inside each round: the median and its interval "+
		"(at %s, so that all hold at once with 95%%). No difference: from %s to %s.",
		percent(all[0].Confidence), ratio(1/most), ratio(most))
	return []Block{{Heading: "Comparison", Table: ComparisonTable(all), Note: []string{note}}}
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
		t.Add(c.Place, again(c.A), verdict, again(c.B), ratio(c.Ratio), interval(c), Number(c.PerSecondA, metric.PerSecond),
			Number(c.PerSecondB, metric.PerSecond), fmt.Sprint(c.Rounds), again(c.Reason))
	}
	return t.without("", none)
}

func ratio(v float64) string {
	if v > 0.1 && v < 9.995 {
		return fmt.Sprintf("%.3f", v)
	}
	return Number(v, metric.Plain)
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
	points := sweep.Points(run, all)
	if !slices.ContainsFunc(points, func(p sweep.Point) bool { return len(p.Best) > 0 }) {
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
	return []Block{{Heading: "Best", Table: t.without(""), Note: []string{best}}}
}

// bookBlocks are, if a run reproduces the book, its tables beside what was
// measured, and its claims.
func bookBlocks(run *runs.Run) (blocks []Block) {
	if t := BookTable(run); t != nil {
		note := append(scaling(run), rounds(run)...)
		blocks = append(blocks, Block{Heading: "Tables of Redis in Action", Table: t, Note: note})
	}
	if len(run.Claims) > 0 {
		note := []string{"The tolerances were set beforehand."}
		blocks = append(blocks, Block{Heading: "Claims", Table: claimTable(run.Claims), Note: note})
	}
	return blocks
}

// BookTable is the book's last table, as measured and as published; nil: the
// run reproduces none of them.
func BookTable(run *runs.Run) *Table {
	if len(run.Manifest.Config.Reproduces) == 0 {
		return nil
	}
	t := NewTable("load", "locking", "", "listed", "bought", "retries", "retries/purchase", "avg wait")
	t.names = 3

	for _, pub := range reference.RowsByMix() {
		load := count(pub.Listers, "lister") + ", " + count(pub.Buyers, "buyer")
		if g, found := groupOf(run, pub); !found {
			t.Add(load, pub.Locking, "not measured")
		} else {
			who := strings.TrimSuffix("measured; "+g.Problem(), "; ")
			t.Add(append([]string{load, pub.Locking, who}, counts(g, run)...)...)
		}
		t.Add("", "", "book", printed(pub.Listed), printed(pub.Bought), printed(pub.Retries),
			retriesPerPurchase(pub).text(metric.Plain), printed(pub.WaitMS)+" ms")
	}
	return t
}

// counts are what was measured, each with its interval: listed, bought and retries
// are scaled to the book's time.
func counts(g runs.Group, run *runs.Run) (cells []string) {
	for _, name := range []string{"listed", "bought", "retries", "retries_per_purchase", "wait_ms_mean"} {
		m := inBookTime(metric.ByName(name))
		i := median(g, m, bookRounds(run))
		cells = append(cells, Number(i.Center, m.Unit)+reach(i))
	}
	return cells
}

// scale is the factor from a row's counts to those of the book's time; 1 if the row
// lasted that long, but for 0.05 s.
func scale(r *result.Row) float64 {
	if r.Seconds <= 0 || math.Abs(r.Seconds-reference.BookSeconds) < 0.05 {
		return 1
	}
	return reference.BookSeconds / r.Seconds
}

func scaling(run *runs.Run) []string {
	if !slices.ContainsFunc(run.Rows, func(r result.Row) bool { return scale(&r) != 1 }) {
		return nil
	}
	return []string{fmt.Sprintf("Measured over %s a row, counts scaled to the book's %d s.",
		seconds(run.Manifest.Config.DurationSeconds), reference.BookSeconds)}
}

func printed(v reference.PrintedNumber) string { return publishedAs(v).text(metric.Plain) }

func claimTable(claims []runs.Claim) *Table {
	t := NewTable("id", "claim", "verdict", "book", "measured", "interval", "holds if").
		Wrapping("claim", "book", "measured", "holds if")
	for _, c := range claims {
		interval := ""
		if c.Low != nil && c.High != nil {
			interval = Number(*c.Low, metric.Plain) + " to " + Number(*c.High, metric.Plain)
		}
		t.Add(fmt.Sprint(c.ID), c.Text, string(c.Verdict), c.Published, c.Measured, interval, c.Tolerance)
		switch c.Verdict {
		case runs.Holds:
			t.tone(2, good)
		case runs.DoesNot:
			t.tone(2, bad)
		}
	}
	return t.without("")
}

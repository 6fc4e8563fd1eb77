package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
)

// BookFigure is a figure of the book's nine rows: retries per purchase, purchases and average
// wait, measured beside published. A run that reproduces none of the book's tables has
// no panels in it.
func BookFigure(run *runs.Run) Figure {
	f := Figure{
		Name:  "book",
		Title: "Tables 6-1 to 6-3 of Redis in Action, measured beside published",
		Note: fmt.Sprintf("Medians of the rounds, counts scaled to the book's %d s, on logarithmic scales with a place "+
			"of its own for 0. An arrow begins at a bound: where the book prints <600 purchases, it is known only that "+
			"there were fewer, and more than so many retries for each.", reference.BookSeconds),
	}
	if reference.SourceOf(run) != reference.Book {
		return f
	}

	f.Panels = []Panel{
		bookPanel(run, "Retries per purchase", "retries_per_purchase", retriesPerPurchase),
		bookPanel(run, fmt.Sprintf("Purchases in %d s", reference.BookSeconds), "bought",
			func(r reference.PublishedRow) Published { return publishedAs(r.Bought) }),
		bookPanel(run, "Average wait for a purchase", "wait_ms_mean",
			func(r reference.PublishedRow) Published { return publishedAs(r.WaitMS) }),
	}
	return f
}

// bookPanel shows one number of the book's rows, in the order of its last table.
func bookPanel(run *runs.Run, title, metric string, published func(reference.PublishedRow) Published) Panel {
	m := inTime(runs.MetricByName(metric), reference.BookSeconds)
	p := Panel{Title: title, X: &Scale{Unit: m.Unit, Log: true, Zero: true}}
	for _, r := range reference.RowsByMix(reference.Book) {
		beside := published(r)
		dot := Dot{
			Label:     fmt.Sprintf("%s, %s: %s", count(r.Listers, "lister"), count(r.Buyers, "buyer"), r.Locking),
			Value:     math.NaN(), // until it is found to be measured: no dot
			Low:       math.Inf(-1),
			High:      math.Inf(1),
			Published: &beside,
		}

		if g, found := groupOf(run, r); found {
			i := median(g, m, bookRounds(run))
			dot.Value, dot.Low, dot.High = i.Center, i.Low, i.High
		}
		p.Dots = append(p.Dots, dot)
	}
	return p
}

// WatchBesideLocks is what WATCH costs beside a lock: of each row of the book's tables
// what was measured, and beside it what the book prints, which has no percentiles. It is
// nil if the run reproduces none of them. README shows this table, and a test compares it.
func WatchBesideLocks(run *runs.Run) *Table {
	if reference.SourceOf(run) != reference.Book {
		return nil
	}

	t := NewTable("load", "locking", "retries/purchase", "the book's", "purchases/s", "the book's", "p99")
	for _, r := range reference.RowsByMix(reference.Book) {
		measured := []string{none, none, none}
		if g, found := groupOf(run, r); found {
			for i, name := range []string{"retries_per_purchase", "purchases_per_second", "wait_ms_p99"} {
				m := runs.MetricByName(name)
				measured[i] = Number(median(g, m, 0).Center, m.Unit)
			}
		}

		load := count(r.Listers, "seller") + ", " + count(r.Buyers, "buyer")
		perSecond := publishedAs(r.Bought) // in BookSeconds
		perSecond.Value = math.Round(perSecond.Value / reference.BookSeconds)
		t.Add(load, r.Locking,
			measured[0], retriesPerPurchase(r).text(runs.Plain),
			measured[1], perSecond.text(runs.PerSecond), measured[2])
	}
	return t
}

// groupOf is what was measured of a row of the book, if it was.
func groupOf(run *runs.Run, r reference.PublishedRow) (g runs.Group, found bool) {
	groups := measured(run)
	i := slices.IndexFunc(groups, func(g runs.Group) bool {
		return g.Spec() == r.Strategy && g.Mix == result.Mix{Sellers: r.Listers, Buyers: r.Buyers}
	})
	if i < 0 {
		return g, false
	}
	return groups[i], true
}

// inTime is a metric that, if it counts, is scaled to a time in seconds.
func inTime(m runs.Metric, in float64) runs.Metric {
	if m.Name == "listed" || m.Name == "bought" || m.Name == "retries" {
		of := m.Of
		m.Of = func(r *result.Row) float64 { return math.Round(of(r) * factorTo(r, in)) }
	}
	return m
}

// bookRounds is how many rounds a median needs before it has an interval.
func bookRounds(run *runs.Run) int {
	return max(run.Manifest.Config.Trials, compare.Fewest(1))
}

func publishedAs(v reference.PrintedNumber) Published {
	return Published{Value: v.Number, Below: v.Below}
}

// retriesPerPurchase divides two printed numbers: over an upper bound the quotient is
// a lower bound.
func retriesPerPurchase(r reference.PublishedRow) Published {
	p := Published{
		Value: r.Retries.Number / r.Bought.Number,
		Below: r.Retries.Below,
		Above: r.Bought.Below,
	}
	if r.Bought.Number == 0 || p.Below && p.Above {
		return Published{Value: math.NaN()}
	}
	return p
}

// text is the number as it is printed: "<600", ">268", "14 ms".
func (p Published) text(unit runs.Unit) string {
	text := Number(p.Value, unit)
	switch {
	case p.Below && !strings.HasPrefix(text, "<"): // as "<0.001" does
		return "<" + text
	case p.Above:
		return ">" + text
	}
	return text
}

// bookTitle says whose tables a run reproduces.
func bookTitle(run *runs.Run) string {
	if source := reference.SourceOf(run); source != reference.Book {
		return "Tables of Redis in Action, as " + source + " locks"
	}
	return "Tables of Redis in Action"
}

// bookBlocks are, if a run reproduces the book, its tables beside what was
// measured, and its claims.
func bookBlocks(run *runs.Run) (blocks []Block) {
	if t := BookTable(run); t != nil {
		note := append(scaling(run), rounds(run)...)
		blocks = append(blocks, Block{Heading: bookTitle(run), Table: t, Note: note})
	}
	if len(run.Claims) > 0 {
		note := []string{"The tolerances were set beforehand."}
		blocks = append(blocks, Block{Heading: "Claims", Table: claimTable(run.Claims), Note: note})
	}
	return blocks
}

// BookTable is the book's last table, as measured and, a row below, as published; nil: the
// run reproduces none of the tables.
func BookTable(run *runs.Run) *Table {
	source := reference.SourceOf(run)
	if source == "" {
		return nil
	}
	who := map[string]string{reference.Book: "book"}
	t := NewTable("load", "locking", "", "listed", "bought", "retries", "retries/purchase", "avg wait")
	t.names = 3

	for _, pub := range reference.RowsByMix(source) {
		load := count(pub.Listers, "lister") + ", " + count(pub.Buyers, "buyer")
		if g, found := groupOf(run, pub); !found {
			t.Add(load, pub.Locking, "not measured")
		} else {
			how := strings.TrimSuffix("measured; "+g.Problem(), "; ")
			t.Add(append([]string{load, pub.Locking, how}, counts(g, run)...)...)
		}
		t.Add("", "", cmp.Or(who[source], source), printed(pub.Listed), printed(pub.Bought), printed(pub.Retries),
			retriesPerPurchase(pub).text(runs.Plain), publishedAs(pub.WaitMS).text(runs.Milliseconds))
	}
	return t
}

// counts are what was measured, in the order of BookTable's columns, each with its interval:
// listed, bought and retries are scaled to the book's time.
func counts(g runs.Group, run *runs.Run) (cells []string) {
	for _, name := range []string{"listed", "bought", "retries", "retries_per_purchase", "wait_ms_mean"} {
		m := inTime(runs.MetricByName(name), publishedSeconds(run))
		i := median(g, m, bookRounds(run))
		cells = append(cells, Number(i.Center, m.Unit)+reach(i))
	}
	return cells
}

// publishedSeconds is how long the rows were measured that a run reproduces. It is asked
// only of a run that reproduces some: of others BookTable is nil.
func publishedSeconds(run *runs.Run) float64 {
	rows := reference.RowsByMix(reference.SourceOf(run))
	return float64(rows[0].Seconds)
}

// factorTo is the factor from a row's counts to those of a published time in seconds; 1 if
// the row lasted that long, but for 0.05 s.
func factorTo(r *result.Row, in float64) float64 {
	if r.Seconds <= 0 || math.Abs(r.Seconds-in) < 0.05 {
		return 1
	}
	return in / r.Seconds
}

// scaling says that counts are scaled, and to which time; nil: those of no row are.
func scaling(run *runs.Run) []string {
	in := publishedSeconds(run)
	if !slices.ContainsFunc(run.Rows, func(r result.Row) bool { return factorTo(&r, in) != 1 }) {
		return nil
	}
	whose := "the book's"
	if source := reference.SourceOf(run); source != reference.Book {
		whose = "the " + source
	}
	return []string{fmt.Sprintf("Measured over %s a row, counts scaled to %s %s.",
		seconds(run.Manifest.Config.DurationSeconds), whose, seconds(in))}
}

func printed(v reference.PrintedNumber) string { return publishedAs(v).text(runs.Plain) }

func claimTable(claims []runs.Claim) *Table {
	t := NewTable("id", "claim", "verdict", "book", "measured", "interval", "holds if").
		Wrapping("claim", "book", "measured", "holds if")
	for _, c := range claims {
		interval := ""
		if c.Low != nil && c.High != nil {
			interval = Number(*c.Low, runs.Plain) + " to " + Number(*c.High, runs.Plain)
		}
		t.Add(fmt.Sprint(c.ID), c.Text, string(c.Verdict), c.Published, c.Measured, interval, c.Tolerance)

		switch c.Verdict {
		case runs.Holds:
			t.tone(2, good)
		case runs.DoesNot:
			t.tone(2, bad)
		}
	}
	return t.withoutIdleColumns("")
}

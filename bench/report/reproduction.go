package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/results/reference"
)

// reproduction is the book's tables that the run was asked for, each row as measured and as published.
func reproduction(res *bench.Result) []section {
	var sections []section
	var drawn []string
	for _, name := range res.Manifest.Config.Reproduces {
		if slices.Contains(drawn, name) {
			continue
		}
		drawn = append(drawn, name)
		rows, err := reference.Table(name)
		if err != nil {
			sections = append(sections, section{title: "Table " + clean(name), lines: []string{clean(err.Error())}})
			continue
		}
		sections = append(sections, bookTable(name, rows, res.Rows))
	}
	return sections
}

// bookTable is one table of the book. A row that another table shows too stands in both, and was measured once.
func bookTable(name string, published []reference.Row, rows []bench.Row) section {
	s := section{title: "Table " + name + " of Redis in Action"}
	t := &table{left: 3, header: []string{"load", "locking", "", "listed", "bought", "retries", "retries/\npurchase",
		"avg wait"}}
	var pools []bench.Pooled
	for _, pub := range published {
		load := count(int64(pub.Listers), "lister") + ", " + count(int64(pub.Buyers), "buyer")
		p, found := bench.Pool(rows, pub.Locking, pub.Listers, pub.Buyers)
		measured := cells(load, pub.Locking, "not measured", none, none, none, none, none)
		if found {
			pools = append(pools, p)
			measured = append(cells(load, pub.Locking, measuredWord(p)), counts(p)...)
		}
		if p.Problem != "" {
			s.notes = append(s.notes, fmt.Sprintf("* %s %s", p.Name(), p.Problem))
		}
		book := append(cells("", "", "book"), printed(pub)...)
		t.rows = append(t.rows, measured, book)
	}
	if line := scaling(pools); line != "" {
		s.lines = []string{line}
	}
	s.table = t
	return s
}

func measuredWord(p bench.Pooled) string {
	if p.Problem != "" {
		return "measured*"
	}
	return "measured"
}

// counts is what was measured, with the counts scaled to the book's time where they need it.
func counts(p bench.Pooled) []cell {
	scale := 1.0
	if scaled(p) {
		scale = reference.BookSeconds / p.Seconds
	}
	perPurchase := none
	if p.Bought != 0 {
		perPurchase = number(p.Retries / p.Bought)
	}
	return cells(whole(p.Listed*scale), whole(p.Bought*scale), whole(p.Retries*scale), perPurchase,
		ms(p.WaitMS, p.Bought != 0))
}

// scaled reports whether a row's counts are scaled: not when it ran for as long as the book's, give or take what a
// clock shows, and not when it has no time to scale by.
func scaled(p bench.Pooled) bool {
	return p.Seconds > 0 && math.Abs(p.Seconds-reference.BookSeconds) > 0.05
}

// scaling says how long the rows of a table ran, when that was not as long as in the book.
func scaling(pools []bench.Pooled) string {
	if !slices.ContainsFunc(pools, scaled) {
		return ""
	}
	least, most, trials := math.Inf(1), 0.0, 0
	for _, p := range pools {
		least, most, trials = min(least, p.Seconds), max(most, p.Seconds), max(trials, p.Trials)
	}
	took := fmt.Sprintf("%.3g", most)
	if shortest := fmt.Sprintf("%.3g", least); shortest != took {
		took = shortest + " to " + took
	}
	if trials > 1 {
		took = fmt.Sprintf("%s s a row in %d trials", took, trials)
	} else {
		took += " s a row"
	}
	return fmt.Sprintf("measured over %s, counts scaled to the book's %d s", took, reference.BookSeconds)
}

// printed is a row as the book has it. Its retries per purchase are not printed there, but follow from what is.
func printed(r reference.Row) []cell {
	return cells(value(r.Listed), value(r.Bought), value(r.Retries), quotient(r.Retries, r.Bought),
		value(r.WaitMS)+" ms")
}

func value(v reference.Value) string {
	return bound(v.Below, "<") + thousands(int64(v.Number))
}

// quotient divides two printed numbers: over an upper bound, the quotient is a lower bound, and the other way round.
func quotient(a, b reference.Value) string {
	if b.Number == 0 || a.Below && b.Below {
		return none
	}
	return bound(b.Below, ">") + bound(a.Below, "<") + number(a.Number/b.Number)
}

func bound(is bool, sign string) string {
	if is {
		return sign
	}
	return ""
}

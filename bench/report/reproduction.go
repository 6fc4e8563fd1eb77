package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// reproduction is the book's tables that the run was asked for, each row as measured and as published.
func reproduction(res *result.Run) []section {
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
		sections = append(sections, bookTable(name, rows, res))
	}
	return sections
}

// bookTable is one table of the book. A row that another table shows too stands in both, and was measured once. Of
// several rounds it shows the median, and below how far its interval reaches.
func bookTable(name string, published []reference.Row, res *result.Run) section {
	s := section{title: "Table " + name + " of Redis in Action"}
	t := &table{header: headings(3, "load", "locking", "", "listed", "bought", "retries", "retries/\npurchase",
		"avg wait")}
	t.header[6].spare = 1 // it follows from the two before it
	var all []result.Row
	measured := lines(res)
	for _, pub := range published {
		load := count(int64(pub.Listers), "lister") + ", " + count(int64(pub.Buyers), "buyer")
		name := pub.Locking + " " + result.Mix{Sellers: pub.Listers, Buyers: pub.Buyers}.String()
		i := slices.IndexFunc(measured, func(rows []result.Row) bool { return rows[0].Name() == name })
		if i < 0 {
			t.rows = append(t.rows, cells(load, pub.Locking, "not measured", none, none, none, none, none))
		} else {
			all = append(all, measured[i]...)
			values, margins := counts(measured[i], res)
			word := "measured"
			if problem := firstProblem(measured[i]); problem != "" {
				word = "measured*"
				s.notes = append(s.notes, fmt.Sprintf("* %s %s", name, problem))
			}
			t.rows = append(t.rows, append(cells(load, pub.Locking, word), values...))
			if margins != nil {
				t.rows = append(t.rows, append(cells("", "", "±"), margins...))
			}
		}
		t.rows = append(t.rows, append(cells("", "", "book"), printed(pub)...))
	}
	if line := joined("; ", scaling(all), medians(res)); line != "" {
		s.lines = []string{line}
	}
	s.table = t
	s.meaning = bookMeaning(published, look(res))
	return s
}

// firstProblem says why some of the rows must not be judged, or nothing.
func firstProblem(rows []result.Row) string {
	for _, r := range rows {
		if problem := r.Problem(); problem != "" {
			return problem
		}
	}
	return ""
}

// counts is what was measured, with the counts scaled to the book's time where they need it, and if that is known how
// far the interval of each reaches.
func counts(rows []result.Row, res *result.Run) (values, margins []cell) {
	scale := func(r result.Row, n int64) float64 {
		if scaled(r) {
			return float64(n) * reference.BookSeconds / r.Seconds
		}
		return float64(n)
	}
	bought := func(r result.Row) bool { return r.Bought != 0 }
	for _, column := range []struct {
		of    func(result.Row) float64
		drawn func(float64) string
	}{
		{func(r result.Row) float64 { return scale(r, r.Listed) }, whole},
		{func(r result.Row) float64 { return scale(r, r.Bought) }, whole},
		{func(r result.Row) float64 { return scale(r, r.Retries) }, whole},
		{func(r result.Row) float64 { return float64(r.Retries) / float64(r.Bought) }, number},
		{func(r result.Row) float64 { return r.WaitMS.Mean }, func(v float64) string {
			return ms(v, slices.ContainsFunc(rows, bought))
		}},
	} {
		i := over(rows, column.of)
		values = append(values, cell{text: column.drawn(i.Center)})
		if sure(i, res) {
			margins = append(margins, cell{text: reach(i)})
		} else {
			margins = append(margins, cell{text: none})
		}
	}
	if !slices.ContainsFunc(margins, func(c cell) bool { return c.text != none }) {
		return values, nil
	}
	return values, margins
}

// scaled reports whether a row's counts are scaled: not when it ran for as long as the book's, give or take what a
// clock shows, and not when it has no time to scale by.
func scaled(r result.Row) bool {
	return r.Seconds > 0 && math.Abs(r.Seconds-reference.BookSeconds) > 0.05
}

// scaling says how long the rows of a table ran, when that was not as long as in the book.
func scaling(rows []result.Row) string {
	if !slices.ContainsFunc(rows, scaled) {
		return ""
	}
	least, most := math.Inf(1), 0.0
	for _, r := range rows {
		least, most = min(least, r.Seconds), max(most, r.Seconds)
	}
	took := fmt.Sprintf("%.3g", most)
	if shortest := fmt.Sprintf("%.3g", least); shortest != took {
		took = shortest + " to " + took
	}
	return fmt.Sprintf("measured over %s s a row, counts scaled to the book's %d s", took, reference.BookSeconds)
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

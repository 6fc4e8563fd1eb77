package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// isSweep reports whether a run has points, and not mixes.
func isSweep(res *result.Run) bool { return len(res.Manifest.Config.Axes) > 0 }

// sweepSections are what a sweep found, in sentences first; each strategy at each point; which is best where, and what the
// worst costs; where one passes another; and all comparisons. The numbers of single rounds are in the CSV.
func sweepSections(res *result.Run) []section {
	s, seen := res.Sweep, look(res)
	if s == nil {
		return []section{{
			title: "Rows: no round is complete, so nothing is said about the points",
			table: rowTable(res, lines(res), rowsTable), notes: roundNotes(res.Rows), meaning: rowsMeaning(seen),
		}}
	}
	found := section{title: "Findings"}
	for _, text := range s.Findings {
		found.lines = append(found.lines, clean(text))
	}
	var sections []section
	if len(found.lines) > 0 {
		sections = append(sections, found)
	}
	sections = append(sections, pointSection(res))
	if slices.ContainsFunc(s.Points, func(p result.SweepPoint) bool { return p.Loss != nil }) {
		sections = append(sections, bestSection(res))
	}
	if len(s.Crossings) > 0 {
		sections = append(sections, crossingSection(s.Crossings))
	}
	var all []result.Comparison
	for _, p := range s.Points {
		all = append(all, p.Comparisons...)
	}
	if len(all) > 0 {
		compared := comparisonSection(all, margin(res))
		compared.title = "Comparison of each two strategies at each point"
		compared.notes = nil // the table says the same, and the findings what matters
		sections = append(sections, compared)
	}
	if seen.embedded() {
		for i := range sections {
			if sections[i].table != nil {
				sections[i].meaning = seen.undecidable()
			}
		}
	}
	return sections
}

// axisHeadings are the heads of the columns that name a point.
func axisHeadings(res *result.Run) []heading {
	var all []heading
	for _, axis := range res.Manifest.Config.Axes {
		all = append(all, heading{text: clean(string(axis.Name))})
	}
	return all
}

// axisCells are what these columns hold.
func axisCells(res *result.Run, at []float64) (row []cell) {
	for i, axis := range res.Manifest.Config.Axes {
		text := none
		if i < len(at) {
			text = axisValue(axis.Name, at[i])
		}
		row = append(row, cell{text: text})
	}
	return row
}

// axisValue is a value as a table shows it.
func axisValue(axis result.AxisName, v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if axis == result.Hold || axis == result.RTT {
		text += " ms"
	}
	return text
}

// estimated is a median with how far its interval reaches.
func estimated(e *result.Estimate, draw func(float64) string) string {
	switch {
	case e == nil:
		return none
	case e.Low == nil || e.High == nil || e.Median == 0:
		return draw(e.Median)
	}
	return fmt.Sprintf("%s ±%2.0f%%", draw(e.Median), 100*max(*e.High-e.Median, e.Median-*e.Low)/e.Median)
}

// pointSection is each strategy at each point.
func pointSection(res *result.Run) section {
	s := section{
		title: joined(": ", "Points", medians(res)),
		lines: []string{"commands and server us are for each purchase. *: no other strategy is known to be faster there."},
		table: &table{header: append(axisHeadings(res), headings(0, "strategy", "purchases/s", "p99", "commands", "server\nus", "")...)},
		notes: roundNotes(res.Rows),
	}
	n := len(s.table.header)
	s.table.header[n-6].left = true
	s.table.header[n-3].spare, s.table.header[n-2].spare = 2, 1
	type best struct {
		rate  float64
		where string
	}
	var most, fewest *best
	for _, p := range res.Sweep.Points {
		for _, m := range p.Strategies {
			mark := ""
			switch {
			case m.Problem != "":
				mark = clean(m.Problem)
			case slices.Contains(p.Best, m.Strategy) && len(p.Strategies) > 1:
				mark = "*"
			}
			s.table.rows = append(s.table.rows, append(axisCells(res, p.At), cells(clean(m.Strategy), estimated(&m.PerSecond, number),
				estimated(&m.P99MS, milliseconds), estimated(m.Commands, number), estimated(m.ServerUS, number), mark)...))
			if m.Problem != "" {
				continue
			}
			here := &best{m.PerSecond.Median, fmt.Sprintf("with %s at %s", clean(m.Strategy), clean(p.Place))}
			if most == nil || here.rate > most.rate {
				most = here
			}
			if fewest == nil || here.rate < fewest.rate {
				fewest = here
			}
		}
	}
	s.meaning = "None of these rows may be judged."
	if most != nil {
		s.meaning = brief(fmt.Sprintf("From %s purchases/s %s to %s %s.", two(fewest.rate), fewest.where, two(most.rate), most.where))
	}
	return onlyRows(s)
}

// bestSection is which strategies may be the best at each point, and what the worst choice makes of the best.
func bestSection(res *result.Run) section {
	s := section{
		title: "Best and worst choice",
		lines: []string{"best: what no other strategy is known to beat; several, if that is not decided or makes no difference. of best: " +
			"the purchases/s of the worst over those of the fastest, divided inside each round, with the interval of their comparison."},
		table: &table{header: append(axisHeadings(res), headings(0, "best", "worst", "of best", "from", "to")...)},
	}
	n := len(s.table.header)
	s.table.header[n-5].left, s.table.header[n-4].left = true, true
	known, gravest, least := 0, "", 1.0
	for _, p := range res.Sweep.Points {
		worst, parts := none, []string{none, none, none}
		if l := p.Loss; l != nil {
			parts = []string{ofWhole(&l.Ratio), ofWhole(l.Low), ofWhole(l.High)}
			if l.Sure {
				worst = clean(l.Worst)
				if l.Ratio < least {
					least, gravest = l.Ratio, fmt.Sprintf("The worst choice costs most at %s: %s makes %s of the best.", clean(p.Place), worst,
						ofWhole(&l.Ratio))
				}
			}
		}
		if len(p.Best) == 1 {
			known++
		}
		best := clean(strings.Join(p.Best, ", "))
		if best == "" {
			best = none
		}
		s.table.rows = append(s.table.rows, append(axisCells(res, p.At), cells(append([]string{best, worst}, parts...)...)...))
	}
	of := count(int64(len(res.Sweep.Points)), "point")
	s.meaning = brief(fmt.Sprintf("One strategy is known to be the fastest at %d of %s.", known, of), gravest)
	return onlyRows(s)
}

// onlyRows is a section whose text has a paragraph for each row of a table that is too wide for it.
func onlyRows(s section) section {
	var rows []string
	for _, row := range s.table.rows {
		var said []string
		for i, c := range row {
			if c.text != none && c.text != "" {
				said = append(said, oneLine(s.table.header[i].text)+" "+c.text)
			}
		}
		rows = append(rows, strings.Join(said, ", ")+".")
	}
	return fitted(s, rows...)
}

// ofWhole is a part of a whole in percent, or none for nil.
func ofWhole(v *float64) string {
	switch {
	case v == nil:
		return none
	case *v < 0.0995:
		return fmt.Sprintf("%.1f%%", 100**v)
	}
	return fmt.Sprintf("%.0f%%", 100**v)
}

// crossingSection is where one strategy passes another.
func crossingSection(all []result.Crossing) section {
	s := section{
		title: "Crossings",
		lines: []string{"a is known to be slower than b before, and faster after. Between them it is not decided, or makes no difference, or " +
			"nothing was measured."},
		table: &table{header: headings(3, "along", "a", "b", "slower at", "faster at", "until", "at")},
	}
	s.table.header[6].left = true
	for _, c := range all {
		other := none
		if c.Other != "" {
			other = clean(string(c.Other)) + "=" + axisValue(c.Other, c.OtherValue)
		}
		s.table.rows = append(s.table.rows, cells(clean(string(c.Axis)), clean(c.A), clean(c.B), axisValue(c.Axis, c.Before),
			axisValue(c.Axis, c.After), axisValue(c.Axis, c.Until), other))
	}
	var said []string
	for _, c := range all {
		at := ""
		if c.Other != "" {
			at = " with " + c.Other.Say(c.OtherValue)
		}
		said = append(said, fmt.Sprintf("%s passes %s between %s and %s%s.", clean(c.A), clean(c.B), axisValue(c.Axis, c.Before),
			c.Axis.Say(c.After), at))
	}
	s.meaning = brief(said...)
	return onlyRows(s)
}

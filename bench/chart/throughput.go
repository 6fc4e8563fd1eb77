package chart

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/plot/vg/draw"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// throughput is the purchases a second of every row that was measured in a closed loop, mix by mix, with the numbers of
// the book beside those of a reproduction.
func throughput(run *result.Run, all []group) []Figure {
	all = slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.rows[0].Open != nil })
	if len(all) == 0 || isSweep(run) {
		return nil
	}
	var ends []float64
	books := map[string]published{}
	for _, g := range all {
		ends = append(ends, g.median(perSecond).ends()...)
		if b, found := bookOf(g); found {
			books[g.name()] = b
			ends = append(ends, b.perSecond)
		}
	}
	ax := logAxis("purchases a second (log scale)", short, decade(ends)...)
	var parts []part
	var says []string
	for _, place := range places(all) {
		here := at(all, place)
		if len(books) == 0 {
			here = sorted(here, func(g group) value { return g.median(perSecond) })
		}
		l := list{axis: ax}
		for _, g := range here {
			e, text := throughputEntry(g, books)
			l.entries = append(l.entries, e)
			says = append(says, text)
		}
		parts = append(parts, heading(inWords(here[0])), l.part(), space(8))
	}
	about := "Log scale; " + basis(run)
	alt := "Purchases a second as dots on a log scale, " + basis(run) + ": " + told(says)
	if len(books) > 0 {
		dot, ring := draw.GlyphStyle{Color: series[0].color(), Radius: 3.5, Shape: draw.CircleGlyph{}}, bookGlyph(false)
		legend := keys(key{glyph: &dot, text: "measured here"}, key{glyph: &ring, text: "published in Redis in Action"})
		parts = append([]part{legend}, parts...)
	}
	return []Figure{figure(run, "throughput", "Purchases a second", about, alt, parts...)}
}

// decade are values and one more, so that an axis spans a factor of ten or more: on a narrow one a few percent look like
// a lot.
func decade(values []float64) []float64 {
	_, high := span(values, func(v float64) bool { return v > 0 })
	return append(slices.Clone(values), high/10)
}

// throughputEntry is the line of a group, and the same in words.
func throughputEntry(g group, books map[string]published) (entry, string) {
	v := g.median(perSecond)
	e := entry{name: g.strategy, note: short(v.center) + "/s", marks: []mark{{v, dotOf(g, v)}}}
	text := fmt.Sprintf("%s %s", g.name(), v.text(short))
	if v.n == 0 {
		e.note = "not a possible number"
	} else if v.center == 0 {
		e.note = "nothing bought"
	}
	if g.problem != "" {
		e.warn = g.problem
		text += ", which " + g.problem
	}
	if b, found := books[g.name()]; found {
		e.note += ", book " + b.text + "/s"
		e.marks = append(e.marks, mark{value{center: b.perSecond, n: 1}, bookGlyph(b.below)})
		text += ", in the book " + b.text
	}
	return e, text
}

// dotOf is the dot of a group: a ring where its number must not be trusted or is zero, which a log scale cannot show.
func dotOf(g group, v value) draw.GlyphStyle {
	dot := draw.GlyphStyle{Color: series[0].color(), Radius: 3.5, Shape: draw.CircleGlyph{}}
	if g.problem != "" {
		dot.Color, dot.Shape = warn.color(), ring{}
	}
	if v.center == 0 {
		dot.Shape = ring{}
	}
	return dot
}

// published is a number of the book.
type published struct {
	perSecond float64
	below     bool // it is less
	text      string
}

// bookOf is what the book says of a group of a run that reproduces it.
func bookOf(g group) (published, bool) {
	ofBook := func(table string) bool { return slices.Contains(reference.Tables(), table) }
	r := g.rows[0]
	if !slices.ContainsFunc(g.run.Manifest.Config.Reproduces, ofBook) || r.Workload != (result.Workload{}) {
		return published{}, false
	}
	row, found := reference.Find(r.Strategy, r.Sellers, r.Buyers)
	if !found {
		return published{}, false
	}
	p := published{perSecond: row.Bought.Number / reference.BookSeconds, below: row.Bought.Below}
	if p.text = short(p.perSecond); p.below {
		p.text = "<" + p.text
	}
	return p, true
}

func bookGlyph(below bool) draw.GlyphStyle {
	g := draw.GlyphStyle{Color: series[1].color(), Radius: 3.5, Shape: diamond{}}
	if below {
		g.Shape = leftward{}
	}
	return g
}

// inWords is the place of a group as a heading.
func inWords(g group) string {
	r := g.rows[0]
	text := ofMix(r)
	if r.Open != nil && sane(r.Open.Asked) {
		text += ", " + short(r.Open.Asked) + " orders/s"
	}
	return text
}

// ofMix is the mix and the workload of a row in words.
func ofMix(r result.Row) string {
	text := english.Plural(max(0, r.Buyers), "buyer", "")
	if r.Sellers > 0 {
		text = english.Plural(r.Sellers, "seller", "") + ", " + text
	}
	if w := r.Workload.String(); w != "" {
		text += ", " + w
	}
	return text
}

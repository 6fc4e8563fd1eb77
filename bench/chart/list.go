package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A list is named dots below each other, on one axis: the form for anything that has long names. A name has a line of its
// own above its dots, with the number at the right.
type list struct {
	axis    axis
	entries []entry
	bands   []span2   // parts of the axis that are shaded in each track
	lines   []float64 // values that are marked in each track
}

// span2 is a part of an axis.
type span2 struct{ from, to float64 }

// An entry is one line of a list.
type entry struct {
	name  string
	note  string // its number, at the right
	warn  string // why it must not be trusted, or empty
	marks []mark
}

// A mark is a dot with its interval, if that is known.
type mark struct {
	value
	glyph draw.GlyphStyle
}

// track is the height of the line on which the dots of an entry are.
const track vg.Length = 13

// lines are the lines of text of an entry; the last may have the note at its right.
func (e entry) lines() (names []string, noteBelow bool) {
	names = bodyType.wrap(e.name, inner)
	if len(names) == 0 {
		names = []string{""}
	}
	last := names[len(names)-1]
	return names, e.note != "" && bodyType.wide(last)+bodyType.wide(e.note)+8 > inner
}

func (e entry) height() vg.Length {
	names, below := e.lines()
	n := len(names)
	if below {
		n++
	}
	h := vg.Length(n)*bodyType.leading() + track + 5
	if e.warn != "" {
		h += vg.Length(len(warnType.wrap(e.warn, inner))) * warnType.leading()
	}
	return h
}

// part is the list as a part of a figure.
func (l list) part() part {
	h := l.axis.height() + 2
	for _, e := range l.entries {
		h += e.height()
	}
	return part{h, l.draw}
}

func (l list) draw(c draw.Canvas) {
	p := newPlot()
	tracks := make([]float64, len(l.entries)) // their places, from the top
	top := 0.0
	for i, e := range l.entries {
		top += float64(e.height())
		tracks[i] = top - float64(track)/2 - 3
	}
	for i, e := range l.entries {
		l.addMarks(p, e, top-tracks[i])
	}
	l.axis.apply(&p.X)
	p.Y.Min, p.Y.Max, p.Y.Padding = 0, top, 0
	area := draw.Crop(c, margin+4, -margin-4, l.axis.height()+2, 0)
	data := p.DataCanvas(area)
	x, y := p.Transforms(&data)
	for i := range l.entries {
		l.drawTrack(data, x, y(top-tracks[i]))
	}
	p.Draw(area)
	top = 0
	for _, e := range l.entries {
		e.write(c, c.Max.Y-vg.Length(top))
		top += float64(e.height())
	}
	l.axis.drawTicks(c, data, x)
}

// addMarks adds the dots of an entry and their intervals at a height.
func (l list) addMarks(p *plot.Plot, e entry, height float64) {
	for _, m := range e.marks {
		if m.n == 0 || !sane(m.center) {
			continue
		}
		at := plotter.XYs{{X: l.axis.within(m.center), Y: height}}
		if m.sure {
			p.Add(whisker{
				plotter.XY{X: l.axis.within(m.low), Y: height}, plotter.XY{X: l.axis.within(m.high), Y: height},
				draw.LineStyle{Color: m.glyph.Color, Width: 1.5},
			})
		}
		p.Add(&plotter.Scatter{XYs: at, GlyphStyle: m.glyph})
	}
}

// drawTrack draws what is behind the dots of an entry.
func (l list) drawTrack(data draw.Canvas, x func(float64) vg.Length, y vg.Length) {
	const half = track / 2
	for _, b := range l.bands {
		from, to := x(l.axis.within(b.from)), x(l.axis.within(b.to))
		fill(data, band.color(), from, y-half, to, y+half)
	}
	data.StrokeLine2(hair(grid), data.Min.X, y, data.Max.X, y)
	for _, t := range l.axis.ticks {
		if t.Label != "" {
			data.StrokeLine2(hair(grid), x(t.Value), y-half+2, x(t.Value), y+half-2)
		}
	}
	for _, v := range l.lines {
		if l.axis.shows(v) {
			data.StrokeLine2(draw.LineStyle{Color: muted.color(), Width: 1}, x(v), y-half, x(v), y+half)
		}
	}
}

// write writes the name and the note of an entry, from the top.
func (e entry) write(c draw.Canvas, top vg.Length) {
	names, below := e.lines()
	base := top - bodyType.size
	for i, line := range names {
		bodyType.write(c, c.Min.X+margin, base-vg.Length(i)*bodyType.leading(), 0, line)
	}
	base -= vg.Length(len(names)-1) * bodyType.leading()
	if below {
		base -= bodyType.leading()
	}
	bodyType.write(c, c.Max.X-margin, base, 1, e.note)
	for _, line := range warnType.wrap(e.warn, inner) {
		base -= warnType.leading()
		warnType.write(c, c.Min.X+margin, base, 0, line)
	}
}

// key explains marks: each with its text, below each other.
type key struct {
	glyph *draw.GlyphStyle // nil: none
	line  *draw.LineStyle  // through it; nil: none
	text  string
	note  string // at the right
	small string // more of it, below
}

// keys is the part of a figure that explains its marks.
func keys(all ...key) part {
	const indent = 26
	var h vg.Length = 8
	lines := make([][]string, len(all))
	for i, k := range all {
		room := inner - indent
		if k.note != "" {
			room -= bodyType.wide(k.note) + 8
		}
		lines[i] = bodyType.wrap(k.text, max(room, inner/3))
		h += k.height(lines[i])
	}
	return part{h, func(c draw.Canvas) {
		top := c.Max.Y - 2
		for i, k := range all {
			base := top - bodyType.size
			mid := vg.Point{X: c.Min.X + margin + 10, Y: base + 0.35*bodyType.size}
			if k.line != nil {
				c.StrokeLine2(*k.line, mid.X-10, mid.Y, mid.X+10, mid.Y)
			}
			if k.glyph != nil {
				c.DrawGlyphNoClip(*k.glyph, mid)
			}
			for j, line := range lines[i] {
				bodyType.write(c, c.Min.X+margin+indent, base-vg.Length(j)*bodyType.leading(), 0, line)
			}
			bodyType.write(c, c.Max.X-margin, base, 1, k.note)
			top -= k.height(lines[i])
			noteType.write(c, c.Min.X+margin+indent, top+5, 0, k.small)
		}
	}}
}

// height is that of a key whose text has these lines.
func (k key) height(lines []string) vg.Length {
	h := vg.Length(max(1, len(lines)))*bodyType.leading() + 1
	if k.small != "" {
		h += noteType.leading() + 1
	}
	return h
}

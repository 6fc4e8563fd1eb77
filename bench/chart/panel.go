package chart

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A panel is lines in a frame: how something changes with what stands on the horizontal axis.
type panel struct {
	x, y    axis
	height  vg.Length // of the frame
	left    vg.Length // room for labels at its left; 0: gutter
	lines   []line
	regions []region // shaded, behind the lines
	levels  []level
}

// A line is one line of a panel. Points that an axis cannot show leave a gap.
type line struct {
	look
	points []point
	bare   bool // with marks only where a point wants one
	apart  bool // nothing joins its points
	spread bool // low to high is a band, and not a whisker at each point
	behind bool // thin and grey: it is there to compare the others with
}

// A point is one place of a line. Its interval is low to high, if that is known.
type point struct {
	x, y      float64
	low, high float64
	sure      bool
	doubtful  bool // drawn as a ring
	marked    bool // on a bare line
}

// A region is a part of the horizontal axis.
type region struct {
	span2
	shade
}

// A level is a value of the vertical axis that is marked with a line and a name.
type level struct {
	y    float64
	text string
}

func (p panel) part() part { return part{p.height + p.x.height() + 8, p.draw} }

func (p panel) draw(c draw.Canvas) {
	g := newPlot()
	for _, l := range p.lines {
		p.add(g, l)
	}
	p.x.apply(&g.X)
	p.y.apply(&g.Y)
	area := draw.Crop(c, margin+cmp.Or(p.left, gutter), -margin-6, p.x.height(), -8)
	data := g.DataCanvas(area)
	x, y := g.Transforms(&data)
	for _, r := range p.regions {
		from, to := x(p.x.within(r.from)), x(p.x.within(r.to))
		if to-from < 1 {
			to = from + 1 // a short one is seen, too
		}
		fill(c, r.faint(0x38), from, data.Min.Y, to, data.Max.Y)
	}
	p.y.drawLevels(data, y)
	for _, l := range p.levels {
		if p.y.shows(l.y) {
			dashed := draw.LineStyle{Color: ink.color(), Width: 1, Dashes: []vg.Length{4, 3}}
			data.StrokeLine2(dashed, data.Min.X, y(l.y), data.Max.X, y(l.y))
			noteType.write(c, data.Max.X, y(l.y)+3, 1, l.text)
		}
	}
	g.Draw(area)
	p.x.drawTicks(c, data, x)
}

// behindFirst has the lines that are behind drawn before the others.
func (p panel) behindFirst() {
	slices.SortStableFunc(p.lines, func(a, b line) int {
		switch {
		case a.behind == b.behind:
			return 0
		case a.behind:
			return -1
		}
		return 1
	})
}

// add adds a line to a plot.
func (p panel) add(g *plot.Plot, l line) {
	style, glyph := l.line(), l.glyph()
	if l.behind {
		style = draw.LineStyle{Color: muted.faint(0x60), Width: 1}
	}
	for _, piece := range p.pieces(l.points) {
		if l.spread && len(piece) > 1 {
			g.Add(p.spread(l, piece))
		}
		if len(piece) > 1 && !l.apart {
			g.Add(&plotter.Line{XYs: piece.places(), LineStyle: style})
		}
	}
	if l.behind {
		for _, piece := range p.pieces(l.points) {
			if len(piece) == 1 {
				faint := draw.GlyphStyle{Color: muted.faint(0x60), Radius: 2.5, Shape: draw.CircleGlyph{}}
				g.Add(&plotter.Scatter{XYs: piece.places(), GlyphStyle: faint})
			}
		}
		return
	}
	for _, piece := range p.pieces(l.points) {
		for _, at := range piece {
			if l.bare && !at.marked {
				continue
			}
			if at.sure && !l.spread {
				g.Add(whisker{
					plotter.XY{X: at.x, Y: p.y.within(at.low)}, plotter.XY{X: at.x, Y: p.y.within(at.high)},
					draw.LineStyle{Color: l.color(), Width: 1.25},
				})
			}
			mark := glyph
			if at.doubtful {
				mark.Shape = ring{}
			}
			g.Add(&plotter.Scatter{XYs: plotter.XYs{{X: at.x, Y: at.y}}, GlyphStyle: mark})
		}
	}
}

// A whisker is an interval, level or upright, with a bar at each end. gonum's own is told how far its ends are from the
// middle: of an interval over many decades, the lower one is then zero, which stops a log scale.
type whisker struct {
	from, to plotter.XY
	style    draw.LineStyle
}

// Plot draws the whisker; the method is that of a [plot.Plotter].
func (w whisker) Plot(c draw.Canvas, p *plot.Plot) {
	const half = 3 // of an end
	x, y := p.Transforms(&c)
	x0, y0, x1, y1 := x(w.from.X), y(w.from.Y), x(w.to.X), y(w.to.Y)
	c.StrokeLine2(w.style, x0, y0, x1, y1)
	for _, end := range []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y1}} {
		if w.from.Y == w.to.Y {
			c.StrokeLine2(w.style, end.X, end.Y-half, end.X, end.Y+half)
		} else {
			c.StrokeLine2(w.style, end.X-half, end.Y, end.X+half, end.Y)
		}
	}
}

// piece is a part of a line without a gap.
type piece []point

func (p piece) places() plotter.XYs {
	var all plotter.XYs
	for _, at := range p {
		all = append(all, plotter.XY{X: at.x, Y: at.y})
	}
	return all
}

// pieces are the parts of a line that the axes can show.
func (p panel) pieces(points []point) []piece {
	var all []piece
	var now piece
	for _, at := range points {
		if p.x.shows(at.x) && p.y.shows(at.y) {
			now = append(now, at)
			continue
		}
		if len(now) > 0 {
			all, now = append(all, now), nil
		}
	}
	if len(now) > 0 {
		all = append(all, now)
	}
	return all
}

// spread is the band between the lows and the highs of a piece.
func (p panel) spread(l line, of piece) *plotter.Polygon {
	var outline plotter.XYs
	for _, at := range of {
		outline = append(outline, plotter.XY{X: at.x, Y: p.y.within(at.high)})
	}
	for i := len(of) - 1; i >= 0; i-- {
		outline = append(outline, plotter.XY{X: of[i].x, Y: p.y.within(of[i].low)})
	}
	return &plotter.Polygon{XYs: []plotter.XYs{outline}, Color: l.faint(0x38)}
}

// key is the line in words.
func (l line) key(text, note string) key {
	style, glyph := l.look.line(), l.glyph()
	return key{glyph: &glyph, line: &style, text: text, note: note}
}

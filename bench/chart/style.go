package chart

import (
	"fmt"
	"image/color"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lengths of a picture, in units of which it is width wide. On a telephone that is 390 pixels wide, one is about a pixel.
const (
	width  vg.Length = 360
	margin vg.Length = 10 // at each side
	inner            = width - 2*margin
)

// A shade is a colour with a meaning: of a picture on white paper and, in a browser whose user wants it, on dark.
// A PNG is on white paper.
type shade struct{ name, light, dark string }

// The shades. Those of strategies stay apart for readers who do not see all colours (they follow M. Okabe and K. Ito,
// "Color Universal Design", 2008), and each strategy has a shape of its own besides. All values differ by several steps
// in some part, so that svg.go can tell which one was drawn.
var (
	paper = shade{"paper", "#FFFFFF", "#14181D"}
	ink   = shade{"ink", "#1F2328", "#E6EDF3"}
	muted = shade{"muted", "#59636E", "#A3ADB8"}
	grid  = shade{"grid", "#D8DDE2", "#333C46"}
	band  = shade{"band", "#E9EDF2", "#232B34"}
	warn  = shade{"warn", "#B3261E", "#FF8A80"}

	series = []shade{
		{"series-1", "#0068A8", "#5AB8F0"}, {"series-2", "#D55E00", "#FF9248"}, {"series-3", "#008060", "#35CFA3"},
		{"series-4", "#A03C7A", "#EA93C6"}, {"series-5", "#A87400", "#E9C046"}, {"series-6", "#4B4F9E", "#A6ABFF"},
		{"series-7", "#6B6F73", "#C2C7CC"}, {"series-8", "#7A3B12", "#D8A07C"},
	}
	heat = []shade{
		{"heat-1", "#F2F6FA", "#1B232C"}, {"heat-2", "#DBE8F4", "#1D3145"}, {"heat-3", "#BDD6EC", "#1F405F"},
		{"heat-4", "#9AC1E2", "#225079"}, {"heat-5", "#74AAD5", "#266093"},
	}
)

// shades are all of them.
func shades() []shade {
	return append(append([]shade{paper, ink, muted, grid, band, warn}, series...), heat...)
}

// color is the shade on white paper.
func (s shade) color() color.NRGBA {
	var r, g, b uint8
	_, _ = fmt.Sscanf(s.light, "#%02X%02X%02X", &r, &g, &b) // a test parses them all
	return color.NRGBA{R: r, G: g, B: b, A: 255}
}

// faint is the shade with a part of its strength, from 0 to 255.
func (s shade) faint(part uint8) color.NRGBA {
	c := s.color()
	c.A = part
	return c
}

// look is how the marks of a strategy are drawn: the same in every figure of a run.
type look struct {
	shade
	shape  draw.GlyphDrawer
	dashes []vg.Length
}

// lookOf is the look of the strategy with such an index.
func lookOf(i int) look {
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamond{}, cross{}, wedge{}, plus{}, hollowBox{},
	}
	dashes := [][]vg.Length{nil, {5, 2}, {1.5, 2}, {6, 2, 1.5, 2}}
	i = max(i, 0)
	return look{series[i%len(series)], shapes[i%len(shapes)], dashes[i%len(dashes)]}
}

// glyph is the mark of a look.
func (l look) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color(), Radius: 3.5, Shape: l.shape}
}

// line is the line of a look.
func (l look) line() draw.LineStyle {
	return draw.LineStyle{Color: l.color(), Width: 1.5, Dashes: l.dashes}
}

// Shapes that gonum lacks, or draws with lines too thin to be told apart on a telephone.
type (
	diamond   struct{}
	cross     struct{}
	plus      struct{}
	wedge     struct{} // a triangle upside down
	ring      struct{} // of what must not be trusted: the mark of no strategy
	hollowBox struct{}
	leftward  struct{} // "less than": the true value lies to the left
)

func (diamond) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	r := 1.25 * g.Radius
	c.FillPolygon(g.Color, []vg.Point{
		{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r},
	})
}

func (cross) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	r := 0.85 * g.Radius
	s := thick(g)
	c.StrokeLine2(s, at.X-r, at.Y-r, at.X+r, at.Y+r)
	c.StrokeLine2(s, at.X-r, at.Y+r, at.X+r, at.Y-r)
}

func (plus) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	r := 1.1 * g.Radius
	s := thick(g)
	c.StrokeLine2(s, at.X-r, at.Y, at.X+r, at.Y)
	c.StrokeLine2(s, at.X, at.Y-r, at.X, at.Y+r)
}

func (wedge) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	r := 1.15 * g.Radius
	c.FillPolygon(g.Color, []vg.Point{{X: at.X - r, Y: at.Y + 0.7*r}, {X: at.X + r, Y: at.Y + 0.7*r}, {X: at.X, Y: at.Y - 1.1*r}})
}

// DrawGlyph draws a ring on paper, so that a line below does not fill it.
func (ring) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	draw.CircleGlyph{}.DrawGlyph(c, g, at)
	c.SetColor(paper.color())
	draw.CircleGlyph{}.DrawGlyph(c, draw.GlyphStyle{Color: paper.color(), Radius: g.Radius - 1.4}, at)
}

func (hollowBox) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	draw.BoxGlyph{}.DrawGlyph(c, g, at)
	c.SetColor(paper.color())
	draw.BoxGlyph{}.DrawGlyph(c, draw.GlyphStyle{Color: paper.color(), Radius: g.Radius - 1.6}, at)
}

func (leftward) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	r := g.Radius
	s := thick(g)
	c.StrokeLines(s, []vg.Point{{X: at.X + r/2, Y: at.Y + r}, {X: at.X - r/2, Y: at.Y}, {X: at.X + r/2, Y: at.Y - r}})
}

func thick(g draw.GlyphStyle) draw.LineStyle { return draw.LineStyle{Color: g.Color, Width: 1.6} }

// fill fills a rectangle.
func fill(c draw.Canvas, with color.Color, left, bottom, right, top vg.Length) {
	c.FillPolygon(with, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
}

// hair is a thin line.
func hair(s shade) draw.LineStyle { return draw.LineStyle{Color: s.color(), Width: 0.75} }

// A typeface is a size and a weight of letters, in a shade. Its widths are those of Liberation Sans, which are Arial's.
type typeface struct {
	size vg.Length
	bold bool
	shade
}

var (
	titleType = typeface{14, true, ink}
	headType  = typeface{11.5, true, ink}
	bodyType  = typeface{11, false, ink}
	noteType  = typeface{10, false, muted}
	warnType  = typeface{10, false, warn}
)

func (t typeface) font() font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: t.size}
	if t.bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

func (t typeface) face() font.Face { return font.DefaultCache.Lookup(t.font(), t.size) }

// wide is how wide a text is.
func (t typeface) wide(text string) vg.Length {
	face := t.face()
	return face.Width(text)
}

// leading is the height of a line.
func (t typeface) leading() vg.Length { return 1.25 * t.size }

// write draws a line of text. Align says which part of its width is left of x: 0 begins there, 1 ends there.
func (t typeface) write(c draw.Canvas, x, baseline vg.Length, align float64, text string) {
	if text = printable(text); text == "" {
		return
	}
	c.SetColor(t.color())
	c.FillString(t.face(), vg.Point{X: x - vg.Length(align)*t.wide(text), Y: baseline}, text)
}

// mostLines is over how many lines a text goes. No text of marketsim's own is longer.
const mostLines = 8

// wrap breaks a text into lines that are not wider than room: at spaces, after the colons and commas of a strategy, and
// where there are none, anywhere.
func (t typeface) wrap(text string, room vg.Length) []string {
	var lines []string
	for rest := text; rest != ""; {
		if len(lines) == mostLines {
			last := lines[mostLines-1]
			lines[mostLines-1] = last[:t.fits(last, room-t.wide("..."))] + "..."
			break
		}
		n := t.fits(rest, room)
		lines = append(lines, strings.TrimRight(rest[:n], " "))
		rest = strings.TrimLeft(rest[n:], " ")
	}
	return lines
}

// fits is how many bytes of a text go on a line.
func (t typeface) fits(text string, room vg.Length) int {
	if t.wide(text) <= room {
		return len(text)
	}
	last, end, begun := 0, 0, false
	for i, r := range text {
		next := i + len(string(r))
		if begun && t.wide(text[:next]) > room {
			break
		}
		begun, end = true, next
		if strings.ContainsRune(" :,;+", r) {
			last = next
		}
	}
	if last > 0 {
		return last
	}
	return end
}

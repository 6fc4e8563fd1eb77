// Package chart draws a stored run as pictures: each question that a run can answer is a figure, as SVG or PNG. It only
// draws; what is known about a run was decided in the packages result, compare and sweep.
//
// A figure is made for a telephone and scales to any page. Marks differ in colour and in shape, numbers stand beside the
// marks, names are written out and wrapped, and each figure has a text alternative that says what it shows. Zero, missing
// and impossible numbers, which a file of somebody else's may hold, are left out of a figure and never stop it.
//
// The plots, their scales and both formats are gonum's (gonum.org/v1/plot), which makes SVG on this side: a page needs no
// script to show them. It is a package of its own because that library brings its letters with it, several megabytes.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/marketsim/marketsim/bench/result"
)

// A Figure is a picture of a stored result with its text alternative.
type Figure struct {
	Name  string // unique in a result, and fit for the name of a file and an HTML id, such as "throughput"
	Title string // also drawn above the picture
	Alt   string // what it shows, in words, with the numbers that matter
	parts []part
}

// A part is one thing in a figure, below the one before it.
type part struct {
	height vg.Length
	draw   func(c draw.Canvas) // on a canvas of that height, as wide as the figure
}

// Of returns every figure that a run has data for, in reading order, and none for what is absent.
func Of(run *result.Run) []Figure {
	all := groupsOf(run)
	order := []func(*result.Run, []group) []Figure{
		sweeps, throughput, comparisons, rates, percentiles, split, costs, tries, fairness, overTime,
	}
	var figures []Figure
	for _, of := range order {
		figures = append(figures, of(run, all)...)
	}
	return figures
}

// figure puts the parts below a title and a line about what they are.
func figure(run *result.Run, name, title, about, alt string, parts ...part) Figure {
	title, alt = printable(title+state(run)), printable(alt)
	head := []part{space(margin), words(titleType, title), space(2), words(noteType, about), space(6)}
	return Figure{Name: name, Title: title, Alt: alt, parts: append(append(head, parts...), space(margin))}
}

func (f Figure) height() (h vg.Length) {
	for _, p := range f.parts {
		h += p.height
	}
	return h
}

// draw draws the figure from the top of a canvas.
func (f Figure) draw(c draw.Canvas) {
	c.SetColor(paper.color())
	c.Fill(c.Rectangle.Path())
	top := c.Max.Y
	for _, p := range f.parts {
		area := c
		area.Max.Y, area.Min.Y = top, top-p.height
		p.draw(area)
		top -= p.height
	}
}

// mostPixels is how many pixels a PNG has at most: 256 MB while it is drawn.
const mostPixels = 64 << 20

// errSize is returned, wrapped, for a PNG of a size that cannot be drawn.
var errSize = errors.New("a picture cannot have this size")

// PNG writes the picture on white paper, so many pixels wide. The error of a width with which it would be too narrow to be
// read, or too large, says so.
func (f Figure) PNG(w io.Writer, pixels int) error {
	const narrowest = 100
	if high := float64(pixels) * float64(f.height()/width); pixels < narrowest || high*float64(pixels) > mostPixels {
		return fmt.Errorf("draw %s: %w: %d x %.0f pixels", f.Name, errSize, pixels, math.Max(0, high))
	}
	dpi := int(math.Round(float64(pixels) * vg.Inch.Points() / width.Points()))
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, f.height()), vgimg.UseDPI(dpi))}
	f.draw(draw.New(canvas))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}

// space is empty.
func space(height vg.Length) part { return part{height, func(draw.Canvas) {}} }

// heading is the name of a part of a figure.
func heading(text string) part {
	p := words(headType, text)
	p.height += 3
	return p
}

// words is a text in as many lines as it needs.
func words(t typeface, text string) part {
	lines := t.wrap(text, inner)
	return part{vg.Length(len(lines)) * t.leading(), func(c draw.Canvas) {
		for i, line := range lines {
			t.write(c, c.Min.X+margin, c.Max.Y-vg.Length(i)*t.leading()-t.size, 0, line)
		}
	}}
}

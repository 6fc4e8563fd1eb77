package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The sizes of a figure of dots or curves, in units of its viewBox.
const (
	figureWidth = 600.0 // more where names are long
	dotHeight   = 22.0  // of each dot
	panelHeight = 260.0
	panelHead   = 24.0
	foot        = 44.0 // below a panel: ticks and the axis' label
)

// values are all numbers of a panel's dots.
func (p Panel) values() (all []float64) {
	for _, dot := range p.Dots {
		all = append(all, dot.Value, dot.Low, dot.High)
		if dot.Published != nil {
			all = append(all, dot.Published.Value)
		}
	}
	return all
}

// drawDots lists dots below each other, with their labels at the left. If others
// published numbers beside them, all numbers stand at the right, in two columns.
func (f Figure) drawDots(d *drawing) {
	longest := 0          // of the labels
	hasPublished := false // numbers of others
	var values []float64  // of all panels that have no scale of their own
	for _, p := range f.Panels {
		for _, dot := range p.Dots {
			longest = max(longest, len([]rune(dot.Label)))
			hasPublished = hasPublished || dot.Published != nil
		}
		if p.X == nil {
			values = append(values, p.values()...)
		}
	}

	left := 24 + letter*float64(longest)
	labels := left - 10
	d.Width = max(figureWidth, left+figureWidth/2)
	if hasPublished {
		d.Width = max(d.Width, left+figureWidth/2+2*publishedWidth)
	}
	right := d.Width - 60
	if hasPublished {
		d.publishedKey(left)
		right = d.Width - 2*publishedWidth - 20
		left += arrowLong // so that one does not reach into the labels
	}

	// On one ruler dots of different panels compare. Its label stands below the last panel.
	shared := newRuler(f.X, values, left, right)
	for i, p := range f.Panels {
		x := shared
		if p.X != nil {
			x = newRuler(*p.X, p.values(), left, right)
		}
		top := d.Height
		if len(f.Panels) > 1 || p.Title != "" {
			d.write("panel", "start", p.Title, 8, top+16)
			top += panelHead
		}
		if hasPublished {
			d.write("quiet", "end", "measured", d.Width-8-publishedWidth, top-8)
			d.write("quiet", "end", "published", d.Width-8, top-8)
		}

		bottom := top + dotHeight*float64(len(p.Dots))
		x.below(d, top, bottom)
		for j, dot := range p.Dots {
			y := top + dotHeight*(float64(j)+0.5)
			d.write("name", "end", dot.Label, labels, y+4)
			if hasPublished {
				d.besidePublished(x, dot, y)
			}
			d.dot(x, dot, y, !hasPublished)
		}

		d.Height = bottom + 22
		if p.X != nil && p.X.Label != "" || p.X == nil && i == len(f.Panels)-1 {
			x.label(d, bottom)
			d.Height = bottom + foot
		}
	}
}

// dot draws a value with its interval and, withNumber, the number behind it.
func (d *drawing) dot(x ruler, dot Dot, y float64, withNumber bool) {
	interval := x.drawable(dot.Low) && x.drawable(dot.High)
	if interval {
		d.stroke("interval c0", x.at(dot.Low), y, x.at(dot.High), y)
	}
	if !x.drawable(dot.Value) {
		return
	}

	d.Marks = append(d.Marks, mark{"c0", round1(x.at(dot.Value)), round1(y)})
	end := x.at(dot.Value)
	if x.drawable(dot.High) {
		end = x.at(dot.High)
	}
	if withNumber {
		d.write("value", "start", Number(dot.Value, x.Unit), end+8, y+4)
	}
}

const (
	publishedWidth = 74.0 // of each of the two columns of numbers
	arrowLong      = 18.0
)

// publishedKey says which sign is which, below the title, and moves down what comes next.
func (d *drawing) publishedKey(left float64) {
	y := d.Height + 8
	d.Marks = append(d.Marks, mark{"c0", left, y})
	d.write("name", "start", "measured", left+10, y+4)
	d.diamond(left+100, y)
	d.write("name", "start", "published", left+110, y+4)
	d.arrow(left+226, y, -1)
	d.write("name", "start", "published as less (or more) than", left+234, y+4)
	d.Height += dotHeight
}

// besidePublished draws what was published beside a dot, joined to it by a line, and
// both numbers, in the columns whose headings drawDots writes.
func (d *drawing) besidePublished(x ruler, dot Dot, y float64) {
	d.write("value", "end", Number(dot.Value, x.Unit), d.Width-8-publishedWidth, y+4)
	if dot.Published == nil {
		return
	}
	v := *dot.Published
	d.write("value", "end", v.text(x.Unit), d.Width-8, y+4)
	if !x.drawable(v.Value) {
		return
	}

	if x.drawable(dot.Value) {
		d.stroke("joined", x.at(dot.Value), y, x.at(v.Value), y)
	}
	switch {
	case v.Below:
		d.arrow(x.at(v.Value), y, -1)
	case v.Above:
		d.arrow(x.at(v.Value), y, 1)
	default:
		d.diamond(x.at(v.Value), y)
	}
}

func (d *drawing) diamond(x, y float64) {
	d.stroke("published", x-6, y, x, y-6, x+6, y, x, y+6, x-6, y, x, y-6)
}

// arrow draws a bound: a bar at it, and an arrow to the side on which the number lies.
func (d *drawing) arrow(x, y, side float64) {
	const head = 5.0
	end := x + side*arrowLong
	d.stroke("published", x, y-6, x, y+6)
	d.stroke("published", x, y, end, y)
	d.stroke("published", end-side*head, y-head, end, y, end-side*head, y+head)
}

// Curves differ by colour and by dash, see figureTemplate: 50 of them before two look
// alike, and the first ten have ten colours.
const (
	colours = 10
	dashes  = 5
)

// look is the class of the curve that has so many others before it.
func look(i int) string { return fmt.Sprintf("c%d d%d", i%colours, (i+i/colours)%dashes) }

// Beyond so many points a curve is drawn without them.
const fewPoints = 12

// drawLines draws panels below each other, each with all its curves and their names.
func (f Figure) drawLines(d *drawing) {
	longest := 0 // of the names
	var xs, ys []float64
	looks := map[string]string{} // by name, the same in all panels
	for _, p := range f.Panels {
		for _, l := range p.Lines {
			longest = max(longest, len([]rune(l.Label)))
			xs = append(xs, l.X...)
			ys = append(ys, l.Y...)
			if looks[l.Label] == "" {
				looks[l.Label] = look(len(looks))
			}
		}
	}

	// Ticks are the same wherever a ruler lies: this one tells how much room their texts take.
	left := 48.0
	for _, t := range newRuler(f.Y, ys, 0, 1).marks() {
		left = max(left, 16+letter*float64(len(ruler{Scale: f.Y}.text(t))))
	}
	names := keyLong + 20 + letter*float64(longest)
	right := max(figureWidth-names, left+figureWidth*2/3)
	d.Width = right + names

	x := newRuler(f.X, xs, left, right)
	for _, p := range f.Panels {
		top := d.Height + panelHead
		bottom := top + panelHeight
		y := newRuler(f.Y, ys, bottom, top) // y grows downwards: low values are at the bottom
		d.write("panel", "start", strings.TrimPrefix(p.Title+": "+f.Y.Label, ": "), 8, top-8)
		x.below(d, top, bottom)
		x.label(d, bottom)
		y.left(d, left, right)

		var keys []key
		for _, l := range p.Lines {
			if end, drawn := d.curve(l, looks[l.Label], x, y); drawn {
				keys = append(keys, key{name: l.Label, look: looks[l.Label], y: end})
			}
		}
		d.keys(keys, right+8, top, bottom)
		d.Height = bottom + foot
	}
}

// curve draws a line through the points of a curve that have a place, passing over others, and
// returns the height at which it ends. drawn is false if none has a place. The points stay in the
// order of l: the X of rates, which is what was reached, may fall where more is asked for.
func (d *drawing) curve(l Curve, look string, x, y ruler) (end float64, drawn bool) {
	var points []float64
	for i := range l.X {
		if x.drawable(l.X[i]) && y.drawable(l.Y[i]) {
			points = append(points, x.at(l.X[i]), y.at(l.Y[i]))
		}
	}
	if len(points) == 0 {
		return 0, false
	}

	d.stroke("line "+look, points...)
	end = points[len(points)-1]

	if len(points)/2 > fewPoints {
		return end, true
	}
	for i := 0; i < len(points); i += 2 {
		d.Points = append(d.Points, mark{look, round1(points[i]), round1(points[i+1])})
	}
	return end, true
}

const keyLong = 30.0 // of the piece of a line before its name

// A key is the name of a curve, where it ends, and how it looks.
type key struct {
	name, look string
	y          float64
}

// keys writes the names of curves behind their ends, in the order of these, so that
// lines to the names would not cross.
func (d *drawing) keys(all []key, x, top, bottom float64) {
	const height = 14.0
	slices.SortStableFunc(all, func(a, b key) int { return cmp.Compare(a.y, b.y) })
	for i := range all { // each below the one before
		all[i].y = max(all[i].y, top+float64(i)*height)
		if i > 0 {
			all[i].y = max(all[i].y, all[i-1].y+height)
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // and none below the panel, if there is room
		all[i].y = min(all[i].y, max(bottom, top+float64(len(all)-1)*height)-float64(len(all)-1-i)*height)
	}

	for _, k := range all {
		d.stroke("line "+k.look, x, k.y, x+keyLong, k.y)
		d.write("key "+k.look, "start", k.name, x+keyLong+6, k.y+4)
	}
}

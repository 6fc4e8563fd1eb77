package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The sizes of a figure of dots or curves, in units of its viewBox.
const (
	dotHeight   = 22.0 // of each dot
	panelHeight = 260.0
	panelHead   = 24.0
	foot        = 44.0 // below a panel: ticks and the axis' label
	zeroGap     = 34.0 // between the place for 0 and the other values of a logarithmic scale
)

func (s Scale) span(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range append(values, s.Mark) {
		if s.Log && v == 0 {
			continue // it has a place of its own, or none
		}
		if s.drawable(v) && (v != 0 || len(values) > 0) { // a mark of 0 is none
			low, high = min(low, v), max(high, v)
		}
	}

	if low > high {
		low, high = 1, 10
	}
	if s.Log {
		return low / 1.1, high * 1.1
	}
	return min(0, low), max(high*1.05, low+1e-9)
}

// drawable reports whether a value has a place on the scale. A logarithmic
// scale has one for 0 only if it says so.
func (s Scale) drawable(v float64) bool {
	finite := !math.IsNaN(v) && !math.IsInf(v, 0)
	return finite && (v > 0 || !s.Log || s.Zero && v == 0)
}

func (s Scale) ticks(low, high float64) (all []float64) {
	if s.Log {
		steps := []float64{1, 2, 5}
		if high/low > 200 {
			steps = steps[:1]
		}
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
			for _, step := range steps {
				if v := decade * step; v >= low && v <= high {
					all = append(all, v)
				}
			}
		}
		return all
	}

	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	for (high-low)/step < 3 {
		step /= 2
	}
	for i := math.Ceil(low / step); i*step <= high && len(all) < 12; i++ {
		all = append(all, i*step)
	}
	return all
}

// A ruler says where a value lies between two ends of a drawing.
type ruler struct {
	Scale
	low, high, from, to float64
	zero                bool    // there is a 0, which has a place of its own
	zeroAt              float64 // that place
}

func newRuler(s Scale, values []float64, from, to float64) ruler {
	low, high := s.span(values)
	r := ruler{Scale: s, low: low, high: high, from: from, to: to}
	if s.Log && s.Zero && slices.Contains(values, 0) {
		r.zero = true
		r.zeroAt = from
		r.from += math.Copysign(zeroGap, to-from)
	}
	return r
}

func (r ruler) at(v float64) float64 {
	if r.zero && v == 0 {
		return r.zeroAt
	}
	part := (v - r.low) / (r.high - r.low)
	if r.Log {
		part = math.Log(v/r.low) / math.Log(r.high/r.low)
	}
	return r.from + part*(r.to-r.from)
}

func (r ruler) marks() []float64 {
	all := r.ticks(r.low, r.high)
	if r.zero {
		all = append([]float64{0}, all...)
	}
	return all
}

func (r ruler) below(d *drawing, top, bottom float64) {
	for _, v := range r.marks() {
		d.stroke("grid", r.at(v), top, r.at(v), bottom)
		d.write("tick", "middle", Number(v, r.Unit), r.at(v), bottom+16)
	}
	if r.Mark != 0 {
		d.stroke("limit", r.at(r.Mark), top, r.at(r.Mark), bottom)
	}
}

func (r ruler) label(d *drawing, bottom float64) {
	d.write("label", "middle", r.Label, (r.from+r.to)/2, bottom+34)
}

// left draws the ticks of a ruler that lies at the left of a panel.
func (r ruler) left(d *drawing, left, right float64) {
	for _, v := range r.marks() {
		d.stroke("grid", left, r.at(v), right, r.at(v))
		d.write("tick", "end", Number(v, r.Unit), left-6, r.at(v)+4)
	}
	if r.Mark != 0 {
		d.stroke("limit", left, r.at(r.Mark), right, r.at(r.Mark))
	}
}

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
	longest, values, besides := 0, []float64{}, false
	for _, p := range f.Panels {
		for _, dot := range p.Dots {
			longest = max(longest, len([]rune(dot.Label)))
			besides = besides || dot.Published != nil
		}
		if p.X == nil {
			values = append(values, p.values()...)
		}
	}

	left := 24 + letter*float64(longest)
	labels := left - 10
	d.Width = max(figureWidth, left+figureWidth/2)
	right := d.Width - 60
	if besides {
		d.publishedKey(left)
		right = d.Width - 2*publishedWidth - 20
		left += arrowLong // so that one does not reach into the labels
	}

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
		if besides {
			d.write("quiet", "end", "measured", d.Width-8-publishedWidth, top-8)
			d.write("quiet", "end", "published", d.Width-8, top-8)
		}

		bottom := top + dotHeight*float64(len(p.Dots))
		x.below(d, top, bottom)
		for j, dot := range p.Dots {
			y := top + dotHeight*(float64(j)+0.5)
			d.write("name", "end", dot.Label, labels, y+4)
			if besides {
				d.besidePublished(x, dot, y)
			}
			d.dot(x, dot, y, !besides)
		}

		d.Height = bottom + 22
		if p.X != nil && p.X.Label != "" || p.X == nil && i == len(f.Panels)-1 {
			x.label(d, bottom)
			d.Height = bottom + foot
		}
	}
}

// dot draws a value with its interval and, if it is told, as a number behind it.
func (d *drawing) dot(x ruler, dot Dot, y float64, told bool) {
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
	if told {
		d.write("value", "start", Number(dot.Value, x.Unit), end+8, y+4)
	}
}

const (
	publishedWidth = 74.0 // of each of the two columns of numbers
	arrowLong      = 18.0
)

// publishedKey says which sign is which, below the title.
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
// both numbers.
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

func (f Figure) drawLines(d *drawing) {
	longest, xs, ys := 0, []float64{}, []float64{}
	colour := map[string]int{}
	for _, p := range f.Panels {
		for _, l := range p.Lines {
			longest = max(longest, len([]rune(l.Label)))
			xs = append(xs, l.X...)
			ys = append(ys, l.Y...)
			if _, found := colour[l.Label]; !found {
				colour[l.Label] = len(colour) % colours
			}
		}
	}
	left := 64.0
	for _, v := range f.Y.ticks(f.Y.span(ys)) {
		left = max(left, 16+letter*float64(len(Number(v, f.Y.Unit))))
	}
	names := 26 + letter*float64(longest)
	right := max(figureWidth-names, figureWidth*2/3)
	d.Width = right + names
	x := newRuler(f.X, xs, left, right)
	for _, p := range f.Panels {
		top := d.Height + panelHead
		bottom := top + panelHeight
		y := newRuler(f.Y, ys, bottom, top)
		d.write("panel", "start", strings.TrimPrefix(p.Title+": "+f.Y.Label, ": "), 8, top-8)
		x.below(d, top, bottom)
		x.label(d, bottom)
		y.left(d, left, right)
		last := -math.MaxFloat64 // where the name above stands
		ends := func(l Curve) float64 { return y.at(l.Y[len(l.Y)-1]) }
		// So that names do not cross.
		byEnd := func(a, b Curve) int { return cmp.Compare(ends(a), ends(b)) }
		for _, l := range slices.SortedStableFunc(slices.Values(p.Lines), byEnd) {
			class := fmt.Sprintf("c%d", colour[l.Label])
			var points []float64
			for i := range l.X {
				if x.drawable(l.X[i]) && y.drawable(l.Y[i]) {
					points = append(points, x.at(l.X[i]), y.at(l.Y[i]))
					d.Marks = append(d.Marks, mark{class, round1(x.at(l.X[i])), round1(y.at(l.Y[i]))})
				}
			}
			if len(points) == 0 {
				continue
			}
			d.stroke("line "+class, points...)
			last = max(last+14, points[len(points)-1]+4)
			d.write("key "+class, "start", l.Label, right+10, last)
		}
		d.Height = bottom + foot
	}
}

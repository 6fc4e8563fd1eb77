package view

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/internal/runs"
)

const zeroGap = 34.0 // between the place for 0 and the other values of a logarithmic scale

// span is from where to where a scale goes; low is always below high. One that is linear begins
// at 0, or at the least value below that, and ends a little above the largest. A logarithmic one
// leaves 0 out, and has some room at both ends.
func (s Scale) span(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range append(values, s.Mark) {
		if s.Log && v == 0 {
			continue // it has a place of its own, or none
		}
		if s.drawable(v) && (v != 0 || len(values) > 0) { // else it is a mark of 0: none
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

// ticks are round numbers from low to high, as span returns them. Those of a linear scale are
// 1, 0.5 or 0.25 of a power of ten apart. A logarithmic one has 1, 2 and 5 of each decade, but
// over more than two decades only their beginnings, or some of these.
func (s Scale) ticks(low, high float64) (all []float64) {
	if s.Log {
		steps := []float64{1, 2, 5}
		decades := math.Log10(high) - math.Log10(low)
		if decades > 2.3 {
			steps = steps[:1]
		}
		// Of many decades every second, third ... has a tick.
		factor := math.Pow(10, max(1, math.Ceil(decades/10)))
		first := math.Pow(10, math.Floor(math.Log10(low)))
		// A decade that has underflowed to 0 would stay 0, however often it is multiplied.
		for decade := max(first, math.SmallestNonzeroFloat64); decade <= high; decade *= factor {
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

// A ruler says where a value lies between two ends of a drawing: low at from and high at to.
// In a vertical one from is larger than to, as y grows downwards.
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
		r.from += math.Copysign(zeroGap, to-from) // where the other values begin
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

// marks are the ticks that lie within the ruler, and 0 if it has a place of its own.
func (r ruler) marks() []Tick {
	within := func(all []Tick) []Tick {
		return slices.DeleteFunc(slices.Clone(all), func(t Tick) bool {
			zero := r.zero && t.At == 0
			return !zero && (t.At < r.low || t.At > r.high)
		})
	}
	if given := within(r.Ticks); len(given) > 1 {
		return given
	}

	round := mapped(r.ticks(r.low, r.high), func(v float64) Tick { return Tick{At: v} })
	if r.zero {
		round = slices.Insert(round, 0, Tick{})
	}
	return round
}

// text is what stands at a tick. A number below 1 has as many digits as it needs: two
// ticks never read alike.
func (r ruler) text(t Tick) string {
	switch {
	case t.Label != "":
		return t.Label
	case t.At > 0 && t.At < 1 && r.Unit != runs.Percent:
		return strings.TrimSpace(strconv.FormatFloat(t.At, 'g', 3, 64) + " " + string(r.Unit))
	}
	return Number(t.At, r.Unit)
}

// below draws the ticks of a ruler that lies below a panel. Where two would stand in each
// other, the second has no number.
func (r ruler) below(d *drawing, top, bottom float64) {
	free := math.Inf(-1) // from where on there is room for a number
	for _, t := range r.marks() {
		x := r.at(t.At)
		d.stroke("grid", x, top, x, bottom)

		text := r.text(t)
		half := letter * float64(len(text)) / 2
		if x-half >= free {
			d.write("tick", "middle", text, x, bottom+16)
			free = x + half
		}
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
	for _, t := range r.marks() {
		y := r.at(t.At)
		d.stroke("grid", left, y, right, y)
		d.write("tick", "end", r.text(t), left-6, y+4)
	}
	if r.Mark != 0 {
		d.stroke("limit", left, r.at(r.Mark), right, r.at(r.Mark))
	}
}

package chart

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Numbers outside of these are no measurements, and are not drawn: results may come from somebody else's file.
const (
	tiniest = 1e-9
	hugest  = 1e12
)

// sane reports whether a number can be a measurement: zero can.
func sane(v float64) bool { return v == 0 || v >= tiniest && v <= hugest }

// An axis says where a value is drawn, and which values are marked.
type axis struct {
	log      bool
	min, max float64
	ticks    []plot.Tick
	title    string
}

// logAxis spans the values above zero, from a round number to a round number. Say writes a tick.
func logAxis(title string, say func(float64) string, values ...float64) axis {
	low, high := span(values, func(v float64) bool { return v > 0 })
	if low > high {
		low, high = 1, 10
	}
	a := axis{log: true, min: roundDown(low), max: roundUp(high), title: title}
	if a.min >= a.max { // all values are the same round number
		a.min, a.max = roundDown(a.min*0.9), roundUp(a.max*1.1)
	}
	decades := math.Log10(a.max / a.min)
	every := int(math.Ceil(decades / 5)) // decades between two labels
	for e := int(math.Floor(math.Log10(a.min) + 1e-9)); e <= int(math.Ceil(math.Log10(a.max))); e++ {
		for _, factor := range []float64{1, 2, 5} {
			v := factor * math.Pow10(e)
			if v < a.min*(1-1e-9) || v > a.max*(1+1e-9) {
				continue
			}
			labelled := factor == 1 && e%every == 0 || decades <= 1.7
			a.ticks = append(a.ticks, tick(v, labelled, say))
		}
	}
	return a
}

// linearAxis spans zero and all values.
func linearAxis(title string, say func(float64) string, values ...float64) axis {
	_, high := span(values, func(v float64) bool { return v >= 0 })
	if high <= 0 {
		high = 1
	}
	step := roundUp(high / 5)
	a := axis{max: step * math.Ceil(high/step-1e-9), title: title}
	for i := 0; float64(i)*step <= a.max*(1+1e-9); i++ {
		a.ticks = append(a.ticks, tick(float64(i)*step, true, say))
	}
	return a
}

// placesAxis has one place for each label, all as far from each other.
func placesAxis(title string, labels []string) axis {
	a := axis{min: -0.3, max: float64(len(labels)) - 0.7, title: title}
	for i, label := range labels {
		a.ticks = append(a.ticks, plot.Tick{Value: float64(i), Label: label})
	}
	return a
}

func tick(v float64, labelled bool, say func(float64) string) plot.Tick {
	if labelled {
		return plot.Tick{Value: v, Label: say(v)}
	}
	return plot.Tick{Value: v}
}

// until is the axis without what lies beyond a value.
func (a axis) until(end float64) axis {
	a.max = end
	a.ticks = slices.DeleteFunc(slices.Clone(a.ticks), func(t plot.Tick) bool { return t.Value > end*(1+1e-9) })
	return a
}

// span is the least and the largest of the sane values that are wanted; the least is larger if there is none.
func span(values []float64, wanted func(float64) bool) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if sane(v) && wanted(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// roundDown is the largest of 1, 2 and 5 of a decimal unit that is not above v.
func roundDown(v float64) float64 {
	unit := math.Pow10(int(math.Floor(math.Log10(v) + 1e-9)))
	for _, factor := range []float64{5, 2} {
		if factor*unit <= v*(1+1e-9) {
			return factor * unit
		}
	}
	return unit
}

// roundUp is the smallest of them that is not below v.
func roundUp(v float64) float64 {
	unit := math.Pow10(int(math.Floor(math.Log10(v) + 1e-9)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*unit >= v*(1-1e-9) {
			return factor * unit
		}
	}
	return 10 * unit
}

// within is v, or the end of the axis that is nearer to it.
func (a axis) within(v float64) float64 { return min(max(v, a.min), a.max) }

// shows reports whether a value has a place on the axis.
func (a axis) shows(v float64) bool { return sane(v) && v >= a.min*(1-1e-9) && v <= a.max*(1+1e-9) }

// apply gives an axis of a plot the range and the scale. Call it when all plotters are added: they widen the range. The
// ticks are drawn here, where they have room.
func (a axis) apply(to *plot.Axis) {
	to.Min, to.Max = a.min, a.max
	to.Scale = plot.LinearScale{}
	if a.log {
		to.Scale = plot.LogScale{}
	}
	to.Padding = 0
}

// height is the room below a plot for the labels and the title of its horizontal axis.
func (a axis) height() vg.Length {
	h := vg.Length(2)
	if len(a.ticks) > 0 {
		h += noteType.leading() + 3
	}
	if a.title != "" {
		h += noteType.leading() + 1
	}
	return h
}

// newPlot is an empty plot with a horizontal axis.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.HideAxes()
	return p
}

// drawTicks writes the labels and the title of a horizontal axis below the area of the data. Labels that would run into
// the one before them are left out.
func (a axis) drawTicks(c, data draw.Canvas, x func(float64) vg.Length) {
	end := vg.Length(math.Inf(-1))
	base := data.Min.Y - noteType.leading() - 1
	c.StrokeLine2(hair(muted), data.Min.X, data.Min.Y, data.Max.X, data.Min.Y)
	for _, t := range a.ticks {
		at := x(t.Value)
		length := vg.Length(2)
		if t.Label != "" {
			length = 4
		}
		c.StrokeLine2(hair(muted), at, data.Min.Y, at, data.Min.Y-length)
		wide := noteType.wide(t.Label)
		from := min(max(at-wide/2, c.Min.X), c.Max.X-wide)
		if t.Label == "" || from < end+4 {
			continue
		}
		noteType.write(c, from, base-2, 0, t.Label)
		end = from + wide
	}
	if a.title != "" {
		noteType.write(c, (data.Min.X+data.Max.X)/2, base-2-noteType.leading(), 0.5, a.title)
	}
}

// gutter is the room at the left of a plot for the labels of its vertical axis.
const gutter vg.Length = 38

// drawLevels draws a line at each tick of a vertical axis, and labels it in the gutter.
func (a axis) drawLevels(data draw.Canvas, y func(float64) vg.Length) {
	end := vg.Length(math.Inf(-1))
	for _, t := range a.ticks {
		at := y(t.Value)
		if t.Label == "" || at < end+noteType.size {
			continue
		}
		data.StrokeLine2(hair(grid), data.Min.X, at, data.Max.X, at)
		noteType.write(data, data.Min.X-5, at-0.35*noteType.size, 1, t.Label)
		end = at
	}
}

// short is a number with about three digits, as in 0.04, 2.96, 38.8k and 1.2M.
func short(v float64) string {
	switch {
	case v >= 999.5e9:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case v >= 999.5e6:
		return digits(v/1e9) + "G"
	case v >= 999.5e3:
		return digits(v/1e6) + "M"
	case v >= 999.5:
		return digits(v/1e3) + "k"
	}
	return digits(v)
}

// digits has three of a number, without zeros at the end.
func digits(v float64) string {
	if v != 0 && v < 1e-3 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return text
}

// percent is a part of a whole.
func percent(v float64) string { return digits(100*v) + "%" }

// milliseconds is a time in the unit in which it is read most easily.
func milliseconds(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 0.9995:
		return digits(ms*1000) + " us"
	case ms < 999.5:
		return digits(ms) + " ms"
	}
	return short(ms/1000) + " s"
}

package chart

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"github.com/marketsim/marketsim/bench/result"
)

// A topic is something that a sweep tells of each strategy at each point.
type topic struct {
	name, title, what string
	say               func(float64) string
	of                func(result.Measured) *result.Estimate
}

// topics are what a sweep tells, what matters most first.
func topics() []topic {
	perPurchase := func(v float64) string { return short(v) + " us" }
	return []topic{
		{"sweep", "Purchases a second", "Purchases a second", short,
			func(m result.Measured) *result.Estimate { return &m.PerSecond }},
		{"sweep-latency", "How long the slowest 1% take", "99th percentile of the time of a purchase", milliseconds,
			func(m result.Measured) *result.Estimate { return &m.P99MS }},
		{"sweep-cost", "What a purchase costs the server", "CPU time of the server for a purchase", perPurchase,
			func(m result.Measured) *result.Estimate { return m.ServerUS }},
		{"sweep-commands", "Commands of a purchase", "Commands to the market's server for a purchase", short,
			func(m result.Measured) *result.Estimate { return m.Commands }},
	}
}

// sweeps are the figures of a sweep: lines along its axis, or maps over its two.
func sweeps(run *result.Run, _ []group) []Figure {
	if run.Sweep == nil {
		return nil
	}
	axes := run.Manifest.Config.Axes
	var figures []Figure
	for _, t := range topics() {
		if t.name == "sweep-commands" && slices.ContainsFunc(figures, func(f Figure) bool { return f.Name == "sweep-cost" }) {
			continue // it says the same, less well
		}
		switch len(axes) {
		case 1:
			figures = append(figures, alongAxis(run, axes[0], t)...)
		case 2:
			figures = append(figures, mapOf(run, axes[0], axes[1], t)...)
		}
	}
	if len(axes) == 2 {
		figures = append(bestMap(run, axes[0], axes[1]), figures...)
	}
	return figures
}

// swept are the strategies of a sweep, each with its look.
func swept(run *result.Run) (names []string, looks map[string]look) {
	looks = map[string]look{}
	add := func(name string) {
		if _, twice := looks[name]; !twice {
			looks[name] = lookOf(len(names))
			names = append(names, name)
		}
	}
	for _, name := range run.Manifest.Config.Strategies {
		add(name)
	}
	for _, p := range run.Sweep.Points {
		for _, m := range p.Strategies {
			add(m.Strategy)
		}
	}
	return names, looks
}

// estimated is an estimate as a value.
func estimated(e *result.Estimate) value {
	if e == nil || !sane(e.Median) || e.Median == 0 {
		return value{}
	}
	v := value{center: e.Median, n: 1}
	if e.Low != nil && e.High != nil && sane(*e.Low) && sane(*e.High) && *e.Low <= e.Median && *e.High >= e.Median {
		v.low, v.high, v.sure = *e.Low, *e.High, true
	}
	return v
}

// scale is the axis of a sweep: a log scale, or places as far from each other as any where a value is zero. Place tells
// where a value is on it.
func scale(a result.Axis) (x axis, place func(float64) float64) {
	values := slices.DeleteFunc(slices.Clone(a.Values), func(v float64) bool { return !sane(v) })
	slices.Sort(values)
	values = slices.Compact(values)
	var labels []string
	for _, v := range values {
		labels = append(labels, axisValue(a.Name, v))
	}
	if len(values) > 1 && values[0] > 0 {
		x = axis{log: true, min: values[0] / 1.15, max: values[len(values)-1] * 1.15, title: axisTitle(a.Name) + " (log scale)"}
		for i, v := range values {
			x.ticks = append(x.ticks, plot.Tick{Value: v, Label: labels[i]})
		}
		return x, func(v float64) float64 { return v }
	}
	return placesAxis(axisTitle(a.Name), labels), func(v float64) float64 {
		if i := slices.Index(values, v); i >= 0 {
			return float64(i)
		}
		return math.NaN()
	}
}

// axisValue is a value of an axis as a tick says it.
func axisValue(name result.AxisName, v float64) string {
	if name == result.Hold || name == result.RTT {
		return milliseconds(v)
	}
	return short(v)
}

// axisTitle is an axis in words.
func axisTitle(name result.AxisName) string {
	switch name {
	case result.Clients:
		return "clients"
	case result.Hot:
		return "items that circulate"
	case result.Hold:
		return "work inside the critical section"
	case result.RTT:
		return "delay of a reply"
	}
	return clean(string(name))
}

// alongAxis is a topic along the only axis of a sweep: a line for each strategy.
func alongAxis(run *result.Run, a result.Axis, t topic) []Figure {
	x, _ := scale(a)
	lines, ys := sweepLines(run, a, t)
	if len(ys) == 0 {
		return nil
	}
	end := func(name string) float64 { return lines[name].points[len(lines[name].points)-1].y }
	names := slices.Collect(maps.Keys(lines))
	slices.SortFunc(names, func(a, b string) int { // as they end in the picture
		return cmp.Or(cmp.Compare(end(b), end(a)), cmp.Compare(a, b))
	})
	y := logAxis("", t.say, decade(ys)...)
	var parts []part
	var says []string
	for _, some := range slices.Collect(slices.Chunk(names, evenly(len(names)))) {
		p, ks := panel{x: x, y: y, height: 190}, []key{}
		for _, name := range names {
			l := lines[name]
			if l.behind = !slices.Contains(some, name); l.behind {
				p.lines = append(p.lines, l)
				continue
			}
			k, text := l.key(clean(name), t.say(end(name))), clean(name)+" "+pointsInWords(l.points, a, t.say)
			p.lines = append(p.lines, l)
			ks, says = append(ks, k), append(says, text)
		}
		p.behindFirst()
		parts = append(parts, p.part(), keys(ks...), space(6))
	}
	about := t.what + " over " + axisTitle(a.Name) + ", log scale, " + basis(run) + ". The number is that at the right end." +
		unjudged(run.Sweep, "A ring")
	parts, alt := withFindings(run.Sweep, t, parts, about+" "+told(says))
	return []Figure{figure(run, t.name, t.title+" by "+axisTitle(a.Name), about, alt, parts...)}
}

// sweepLines are the lines of a topic, by strategy, and all numbers that their axis has to reach.
func sweepLines(run *result.Run, a result.Axis, t topic) (lines map[string]line, ys []float64) {
	x, place := scale(a)
	_, looks := swept(run)
	lines = map[string]line{}
	for _, p := range run.Sweep.Points {
		if len(p.At) != 1 {
			continue
		}
		for _, m := range p.Strategies {
			v, at := estimated(t.of(m)), place(p.At[0])
			if v.n == 0 || !x.shows(at) {
				continue
			}
			l := lines[m.Strategy]
			l.look = looks[m.Strategy]
			l.points = append(l.points, point{
				x: at, y: v.center, low: v.low, high: v.high, sure: v.sure, doubtful: m.Problem != "",
			})
			lines[m.Strategy], ys = l, append(ys, v.ends()...)
		}
	}
	for _, l := range lines {
		slices.SortStableFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	}
	return lines, ys
}

// unjudged says what marks a point that must not be judged, and why the first of them is one; empty: there is none.
func unjudged(s *result.Sweep, mark string) string {
	for _, p := range s.Points {
		for _, m := range p.Strategies {
			if m.Problem != "" {
				return fmt.Sprintf(" %s: not to be judged, as %s at %s, which %s.", mark, clean(m.Strategy), clean(p.Place),
					clean(m.Problem))
			}
		}
	}
	return ""
}

// withFindings puts what a sweep found above the first of its figures, and into its words.
func withFindings(s *result.Sweep, t topic, parts []part, alt string) ([]part, string) {
	if t.name != "sweep" {
		return parts, alt
	}
	var found []part
	for i, text := range s.Findings {
		if text = printable(text); i < 3 {
			found = append(found, words(bodyType, text), space(3))
		}
		if i < mostSaid {
			alt += " " + text
		}
	}
	return append(append(found, space(4)), parts...), alt
}

// pointsInWords are the points of a line: "1.2k at 1, 3k at 4".
func pointsInWords(points []point, a result.Axis, say func(float64) string) string {
	x, _ := scale(a)
	var each []string
	for _, at := range points {
		label := short(at.x)
		for _, t := range x.ticks {
			if t.Value == at.x {
				label = t.Label
			}
		}
		text := say(at.y) + " at " + label
		if at.doubtful {
			text += " (not to be judged)"
		}
		each = append(each, text)
	}
	return listed(each)
}

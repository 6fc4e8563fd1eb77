package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/marketsim/marketsim/bench/result"
)

// splitPart is one part of the time of a purchase.
type splitPart struct {
	name string
	shade
	of func(*result.Split) float64
}

// splitParts are in the order in which they are drawn, each lighter or darker than the one before it.
func splitParts() []splitPart {
	return []splitPart{
		{"waiting for locks", series[1], func(s *result.Split) float64 { return s.LockWait }},
		{"holding locks", series[0], func(s *result.Split) float64 { return s.LockHold }},
		{"tries thrown away", series[4], func(s *result.Split) float64 { return s.Thrown }},
		{"the rest", grid, func(s *result.Split) float64 { return s.Rest }},
	}
}

// split is where the mean time of a purchase goes, as one bar for each row.
func split(run *result.Run, all []group) []Figure {
	if isSweep(run) {
		return nil
	}
	parts, used := splitParts(), map[string]bool{}
	var bars []part
	var says []string
	drawn := slices.DeleteFunc(slices.Clone(all), func(g group) bool {
		_, total := splitOf(g)
		return total <= 0
	})
	last := ""
	for _, g := range byPlace(drawn) {
		times, total := splitOf(g)
		if g.place != last {
			bars = append(bars, space(4), heading(inWords(g)))
			last = g.place
		}
		bars = append(bars, bar(g.strategy, milliseconds(total), times, total))
		text := g.name() + " " + milliseconds(total) + ":"
		for i, p := range parts {
			if times[i] > 0 {
				used[p.name] = true
				text += fmt.Sprintf(" %.0f%% %s,", 100*times[i]/total, p.name)
			}
		}
		says = append(says, text[:len(text)-1])
	}
	if len(bars) == 0 {
		return nil
	}
	var legend []key
	for _, p := range parts {
		if used[p.name] {
			glyph := draw.GlyphStyle{Color: p.color(), Radius: 5, Shape: draw.BoxGlyph{}}
			legend = append(legend, key{glyph: &glyph, text: p.name})
		}
	}
	about := "Mean time of a purchase by what it went into, in percent; the whole at the right; " + medians(run)
	return []Figure{figure(run, "time", "Where the time of a purchase goes", about, about+": "+told(says),
		append([]part{keys(legend...)}, bars...)...)}
}

// splitOf are the medians of the parts, and their sum.
func splitOf(g group) (times []float64, total float64) {
	for _, p := range splitParts() {
		v := g.median(func(r result.Row) (float64, bool) {
			if r.TimeMS == nil {
				return 0, false
			}
			return p.of(r.TimeMS), true
		})
		times = append(times, v.center)
		total += v.center
	}
	return times, total
}

// bar is one bar of parts that add up to a total, below its name.
func bar(name, note string, times []float64, total float64) part {
	const high = 15
	e := entry{name: name, note: note}
	h := e.height() - track + high
	return part{h, func(c draw.Canvas) {
		e.write(c, c.Max.Y)
		left, bottom := c.Min.X+margin, c.Min.Y+4
		for i, p := range splitParts() {
			share := times[i] / total
			right := left + vg.Length(share)*inner
			if right-left < 0.2 {
				continue
			}
			fill(c, p.color(), left, bottom, right, bottom+high)
			c.StrokeLine2(draw.LineStyle{Color: paper.color(), Width: 1}, right, bottom, right, bottom+high)
			label := typeface{10, true, paper}
			if p.shade == grid {
				label.shade = ink
			}
			if text := fmt.Sprintf("%.0f%%", 100*share); label.wide(text)+6 < right-left {
				label.write(c, (left+right)/2, bottom+high/2-3.5, 0.5, text)
			}
			left = right
		}
	}}
}

// tries are how often a purchase was tried.
func tries(run *result.Run, all []group) []Figure {
	mean := func(r result.Row) (float64, bool) {
		if r.Tries == nil {
			return 0, false
		}
		return r.Tries.Mean, r.Tries.Mean > 0
	}
	p99 := func(r result.Row) (float64, bool) {
		if r.Tries == nil {
			return 0, false
		}
		return float64(r.Tries.P99), r.Tries.P99 > 0
	}
	several := slices.ContainsFunc(run.Rows, func(r result.Row) bool { return r.Tries != nil && r.Tries.Max > 1 })
	if !several || isSweep(run) {
		return nil
	}
	drawn := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.median(mean).n == 0 })
	if len(drawn) == 0 {
		return nil
	}
	ends := []float64{1}
	for _, g := range drawn {
		ends = append(append(ends, g.median(mean).ends()...), g.median(p99).ends()...)
	}
	dot := draw.GlyphStyle{Color: series[0].color(), Radius: 3.5, Shape: draw.CircleGlyph{}}
	far := draw.GlyphStyle{Color: series[1].color(), Radius: 3.5, Shape: diamond{}}
	ax := logAxis("tries (log scale)", short, ends...)
	parts := []part{keys(key{glyph: &dot, text: "mean"}, key{glyph: &far, text: "99th percentile"})}
	var says []string
	for _, place := range places(drawn) {
		l := list{axis: ax}
		here := at(drawn, place)
		for _, g := range here {
			m, p := g.median(mean), g.median(p99)
			l.entries = append(l.entries, entry{
				name: g.strategy, note: short(m.center) + ", p99 " + short(p.center), marks: []mark{{p, far}, {m, dot}}})
			says = append(says, fmt.Sprintf("%s mean %s, p99 %s", g.name(), short(m.center), short(p.center)))
		}
		parts = append(parts, heading(inWords(here[0])), l.part(), space(8))
	}
	about := "How often a purchase was tried until it was made: once, and once more for each aborted transaction and each " +
		"attempt that did not get a lock; " + basis(run)
	return []Figure{figure(run, "tries", "Tries of a purchase", about, about+": "+told(says), parts...)}
}

// fairness is how evenly buyers came to buy, by Jain's index.
func fairness(run *result.Run, all []group) []Figure {
	drawn := slices.DeleteFunc(slices.Clone(all), func(g group) bool {
		return g.rows[0].Buyers < 2 || g.median(jain).n == 0
	})
	if len(drawn) == 0 || isSweep(run) {
		return nil
	}
	ax := linearAxis("Jain's index", digits, 1)
	var parts []part
	var says []string
	for _, place := range places(drawn) {
		l := list{axis: ax, lines: []float64{1}}
		here := at(drawn, place)
		for _, g := range sorted(here, func(g group) value { return g.median(jain) }) {
			v := g.median(jain)
			note := digits(v.center) + perBuyer(g)
			l.entries = append(l.entries, entry{name: g.strategy, note: note, marks: []mark{{v, dotOf(g, v)}}})
			says = append(says, g.name()+" "+note)
		}
		parts = append(parts, heading(inWords(here[0])), l.part(), space(8))
	}
	about := "Jain's index: 1 if all buyers bought the same, 1/n if one of n bought everything; beside it the purchases of the " +
		"buyers who made the fewest and the most; " + basis(run)
	return []Figure{figure(run, "fairness", "Does every buyer get its turn?", about, about+": "+told(says), parts...)}
}

// jain is the index of a row, which follows from the purchases of its buyers where an older run did not store it.
func jain(r result.Row) (float64, bool) {
	if r.Fairness != nil {
		return r.Fairness.Jain, r.Fairness.Jain > 0 && r.Fairness.Jain <= 1
	}
	var sum, squares float64
	for _, n := range r.PerBuyer {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if sum <= 0 {
		return 0, false
	}
	index := sum * sum / (float64(len(r.PerBuyer)) * squares)
	return index, index <= 1+1e-9
}

// perBuyer says how many purchases the buyers made who made the fewest and the most, medians over rounds.
func perBuyer(g group) string {
	extreme := func(of func([]int64) int64) value {
		return g.median(func(r result.Row) (float64, bool) {
			if len(r.PerBuyer) == 0 {
				return 0, false
			}
			return float64(of(r.PerBuyer)), true
		})
	}
	least, most := extreme(slices.Min[[]int64]), extreme(slices.Max[[]int64])
	if least.n == 0 || most.n == 0 {
		return ""
	}
	return "; " + short(math.Round(least.center)) + " to " + short(math.Round(most.center))
}

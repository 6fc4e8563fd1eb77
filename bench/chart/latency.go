package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"

	"github.com/marketsim/marketsim/bench/result"
)

// mostTogether is how many lines one panel has: of more, the eye finds none.
const mostTogether = 6

// together are groups in panels of at most so many, and about as many in each.
func together(all []group) [][]group { return slices.Collect(slices.Chunk(all, evenly(len(all)))) }

// evenly is how many of n lines are in a panel.
func evenly(n int) int {
	panels := max(1, (n+mostTogether-1)/mostTogether)
	return max(1, (n+panels-1)/panels)
}

// inPanels draws groups in panels of those that are together at one place, the best first by what order says. The others of
// the place are behind them. Show is a group's line, its key and what is said of it.
func inPanels(drawn []group, x, y axis, order func(group) value, show func(group) (line, key, string),
) (parts []part, says []string) {
	for _, place := range places(drawn) {
		here := sorted(at(drawn, place), order)
		for i, some := range together(here) {
			head := inWords(here[0])
			if i > 0 {
				head += ", the slower ones"
			}
			p, ks := panel{x: x, y: y, height: 150}, []key{}
			for _, g := range here {
				l, k, said := show(g)
				l.behind = !slices.ContainsFunc(some, func(s group) bool { return s.name() == g.name() })
				if p.lines = append(p.lines, l); !l.behind {
					ks, says = append(ks, k), append(says, said)
				}
			}
			p.behindFirst()
			parts = append(parts, heading(head), p.part(), keys(ks...), space(8))
		}
	}
	return parts, says
}

// enoughAbove is how many purchases have to lie above a percentile: another run would have another one.
const enoughAbove = 10

// percentiles are the waits of purchases, from the median to the slowest few.
func percentiles(run *result.Run, all []group) []Figure {
	waits := map[string]*hdrhistogram.Histogram{}
	var drawn []group
	nines, ends := 1.0, []float64{}
	for _, g := range all {
		h := merged(g)
		if h == nil || h.TotalCount() < 2*enoughAbove {
			continue
		}
		waits[g.name()] = h
		drawn = append(drawn, g)
		l := percentileLine(g, h)
		nines = max(nines, l.points[len(l.points)-1].x)
		for _, at := range l.points {
			ends = append(ends, at.y)
		}
	}
	if len(drawn) == 0 || isSweep(run) {
		return nil
	}
	x, y := ninesAxis(nines), logAxis("", milliseconds, ends...)
	fastest := func(g group) value { return value{center: -float64(waits[g.name()].ValueAtQuantile(50)), n: 1} }
	parts, says := inPanels(drawn, x, y, fastest, func(g group) (line, key, string) {
		l, h := percentileLine(g, waits[g.name()]), waits[g.name()]
		p50, p99 := milliseconds(quantile(h, 50)), milliseconds(quantile(h, 99))
		return l, l.key(g.strategy, p99), fmt.Sprintf("%s p50 %s, p99 %s", g.name(), p50, p99)
	})
	from := "from the first try"
	if drawn[0].rows[0].Open != nil {
		from = "from when the order was due"
	}
	about := "Time of a purchase " + from + ", log scale, by the part of purchases that took no longer. All rounds together; a " +
		fmt.Sprintf("line ends where fewer than %d purchases are left. The number is the 99th percentile.", enoughAbove)
	return []Figure{figure(run, "latency", "How long a purchase takes", about,
		"Waits of purchases by percentile: "+told(says), parts...)}
}

// merged are the waits of a group's rows, all rounds together; nil: none can be read.
func merged(g group) (all *hdrhistogram.Histogram) {
	for _, r := range g.rows {
		h := decoded(r.Histograms.Purchase)
		switch {
		case h == nil:
		case all == nil:
			all = h
		default:
			all.Merge(h)
		}
	}
	return all
}

// decoded is a stored histogram; nil if it cannot be read. The library checks little of what it decodes, and a damaged
// text makes it panic.
func decoded(text string) (h *hdrhistogram.Histogram) {
	defer func() {
		if recover() != nil {
			h = nil
		}
	}()
	if text == "" {
		return nil
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil || h.TotalCount() <= 0 {
		return nil
	}
	return h
}

// quantile is a percentile in milliseconds; what took less than a microsecond counts as one.
func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(max(1, h.ValueAtQuantile(percent))) / 1000
}

// percentileLine is the waits of a group over the axis of nines, on which a percentile p lies at -log10(1-p), with marks at
// the percentiles that the axis names.
func percentileLine(g group, h *hdrhistogram.Histogram) line {
	l := line{look: g.look, bare: true}
	last := math.Log10(float64(h.TotalCount()) / enoughAbove)
	at := func(x float64, marked bool) {
		if x <= last {
			l.points = append(l.points, point{x: x, y: quantile(h, 100*(1-math.Pow(10, -x))), marked: marked})
		}
	}
	const steps = 10 // between two nines
	for i := 1; float64(i)/steps < last; i++ {
		x := float64(i) / steps
		at(x, i%steps == 0)
		if median := math.Log10(2); x < median && median < x+1.0/steps {
			at(median, true)
		}
	}
	at(last, false)
	return l
}

// ninesAxis is an axis on which each further nine of a percentile has the same room.
func ninesAxis(nines float64) axis {
	a := axis{min: 0, max: nines, title: "percentile"}
	a.ticks = []plot.Tick{{Value: math.Log10(2), Label: "50%"}}
	for n := 1; float64(n) <= nines; n++ {
		label := "90%"
		if n > 1 {
			label = "99%"
		}
		if n > 2 {
			label = fmt.Sprintf("%.*f%%", n-2, 100*(1-math.Pow10(-n)))
		}
		a.ticks = append(a.ticks, plot.Tick{Value: float64(n), Label: label})
	}
	return a
}

// rates are the latencies of open loops by the rate that was asked for.
func rates(run *result.Run, all []group) []Figure {
	ladders := map[string][]group{} // by mix
	var mixes []string
	var xs, ys []float64
	p99 := func(r result.Row) (float64, bool) { return r.WaitMS.P99, r.Bought > 0 && r.WaitMS.P99 > 0 }
	for _, g := range all {
		r := g.rows[0]
		if r.Open == nil || !(r.Open.Asked > 0) || !sane(r.Open.Asked) || g.median(p99).n == 0 {
			continue
		}
		mix := r.Mix().String()
		if ladders[mix] == nil {
			mixes = append(mixes, mix)
		}
		ladders[mix] = append(ladders[mix], g)
		xs, ys = append(xs, r.Open.Asked), append(ys, g.median(p99).ends()...)
	}
	if len(mixes) == 0 {
		return nil
	}
	slo := run.Manifest.Config.SLOMS
	if sane(slo) && slo > 0 {
		ys = append(ys, slo)
	}
	x, y := logAxis("purchases a second asked for (log scale)", short, xs...), logAxis("", milliseconds, ys...)
	var parts []part
	var says []string
	for _, mix := range mixes {
		for _, some := range together(firstOfEach(ladders[mix])) {
			p, ks := panel{x: x, y: y, height: 150}, []key{}
			if slo > 0 {
				p.levels = []level{{slo, "asked for: below " + milliseconds(slo)}}
			}
			for _, first := range some {
				l, reached := ladder(ladders[mix], first, p99)
				p.lines = append(p.lines, l)
				note := "none reached"
				if reached > 0 {
					note = short(reached) + "/s reached"
				}
				ks = append(ks, l.key(first.strategy, note))
				says = append(says, ladderInWords(l, first.strategy+" "+mix, note))
			}
			parts = append(parts, heading(ofMix(some[0].rows[0])), p.part(), keys(ks...), space(8))
		}
	}
	about := "99th percentile of the latency of purchases, from when the order was due, both scales log; " + basis(run) +
		". A ring: the rate was not reached, and the latency grows as long as the row goes on."
	return []Figure{figure(run, "rate", "Latency at a rate", about, about+" "+told(says), parts...)}
}

// firstOfEach is the first group of each strategy.
func firstOfEach(all []group) (first []group) {
	for _, g := range all {
		if !slices.ContainsFunc(first, func(f group) bool { return f.strategy == g.strategy }) {
			first = append(first, g)
		}
	}
	return first
}

// ladder is the latency of one strategy over the rates, and the highest rate that it reached.
func ladder(all []group, of group, p99 func(result.Row) (float64, bool)) (l line, reached float64) {
	l.look = of.look
	for _, g := range all {
		if g.strategy != of.strategy {
			continue
		}
		v := g.median(p99)
		missed := slices.ContainsFunc(g.rows, func(r result.Row) bool { return r.Open == nil || !r.Open.WasReached() })
		asked := g.rows[0].Open.Asked
		l.points = append(l.points, point{
			x: asked, y: v.center, low: v.low, high: v.high, sure: v.sure, doubtful: missed || g.problem != "",
		})
		if !missed {
			reached = max(reached, asked)
		}
	}
	slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return l, reached
}

func ladderInWords(l line, name, note string) string {
	var each []string
	for _, at := range l.points {
		text := fmt.Sprintf("%s at %s/s", milliseconds(at.y), short(at.x))
		if at.doubtful {
			text += " (not reached)"
		}
		each = append(each, text)
	}
	return fmt.Sprintf("%s: %s; %s", name, listed(each), note)
}

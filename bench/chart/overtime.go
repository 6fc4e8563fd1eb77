package chart

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// overTime is the purchases a second over the time of a row. Under faults it shows when they struck.
func overTime(run *result.Run, all []group) []Figure {
	if isSweep(run) || run.Manifest.Config.AtOnce {
		return nil
	}
	drawn := slices.DeleteFunc(byPlace(all), func(g group) bool {
		points, _ := course(g)
		return len(points) == 0
	})
	if len(drawn) == 0 {
		return nil
	}
	var parts []part
	var says []string
	var faults []result.FaultTime
	chaos := false
	for i, g := range drawn {
		if i == 0 || g.place != drawn[i-1].place {
			parts = append(parts, heading(inWords(g)))
		}
		p, text := coursePanel(g)
		if next := i + 1; next < len(drawn) && drawn[next].place == g.place {
			if below, _ := coursePanel(drawn[next]); below.x.max == p.x.max {
				p.x.ticks = nil // those of the next are below
			}
		}
		says = append(says, text)
		parts = append(parts, words(bodyType, g.strategy), p.part(), space(3))
		if c := g.rows[0].Chaos; c != nil {
			times := possible(c.Times, p.x.max)
			chaos, faults = true, append(faults, times...)
			parts = append(parts, lanes(p.x, times))
		}
	}
	title, about := "Purchases a second over time", "Each with a scale of its own, from zero"
	if run.Planned() > 1 {
		about += "; the line is the median of the rounds, and the band reaches from their lowest to their highest"
	}
	alt := about + ": " + told(says)
	switch {
	case chaos && len(faults) == 0:
		about += ". When faults struck was not stored."
		alt += " When faults struck was not stored with this run."
	case chaos:
		title = "Purchases a second while faults strike"
		about += ". Shaded: when a fault struck, by what it struck. Below: which."
		alt += " " + faultsInWords(faults)
		parts = append([]part{faultKeys()}, parts...)
	}
	return []Figure{figure(run, "over-time", title, about, alt, parts...)}
}

// coursePanel is the course of a group in a frame, and in words.
func coursePanel(g group) (p panel, text string) {
	points, end := course(g)
	var ends []float64
	low, high := points[0], points[0]
	for _, at := range points {
		ends = append(ends, at.y, at.high)
		if at.y < low.y {
			low = at
		}
		if at.y > high.y {
			high = at
		}
	}
	seconds := func(s float64) string { return digits(s) + " s" }
	p = panel{x: linearAxis("", seconds, end).until(end), y: threeLevels(ends), height: 58}
	p.lines = []line{{look: look{shade: series[0]}, points: points, bare: true, spread: len(g.rows) > 1}}
	if c := g.rows[0].Chaos; c != nil {
		p.height, p.left = 110, laneNames
		for _, f := range possible(c.Times, end) {
			p.regions = append(p.regions, region{span2{f.Start, f.End}, struckShade(f.Kind)})
		}
	}
	return p, fmt.Sprintf("%s from %s/s (at %s s) to %s/s (at %s s)", g.name(), short(low.y), digits(low.x), short(high.y),
		digits(high.x))
}

// course is the purchases a second of a group over time, the median of its rounds with the lowest and the highest.
func course(g group) (points []point, end float64) {
	var step float64
	var rounds [][]int64
	for _, r := range g.rows {
		s := r.Series
		if s == nil || !(s.StepSeconds >= 1e-6 && s.StepSeconds <= 1e6) || step != 0 && s.StepSeconds != step {
			continue
		}
		n := min(len(s.Purchases), result.MaxPoints)
		if n > 1 { // the last step may be shorter
			n--
		}
		if n > 0 {
			step, rounds = s.StepSeconds, append(rounds, s.Purchases[:n])
		}
	}
	if len(rounds) == 0 {
		return nil, 0
	}
	n := len(slices.MinFunc(rounds, func(a, b []int64) int { return len(a) - len(b) }))
	for i := range n {
		var rates []float64
		for _, round := range rounds {
			if rate := float64(round[i]) / step; sane(rate) {
				rates = append(rates, rate)
			}
		}
		if len(rates) == 0 {
			continue
		}
		points = append(points, point{
			x: (float64(i) + 0.5) * step, y: compare.Median(rates).Center, low: slices.Min(rates), high: slices.Max(rates),
		})
	}
	return points, float64(n) * step
}

// threeLevels is a vertical axis from zero with few ticks, for a low frame.
func threeLevels(values []float64) axis {
	a := linearAxis("", short, values...)
	for i := range a.ticks {
		if i != 0 && i != len(a.ticks)-1 {
			a.ticks[i].Label = ""
		}
	}
	return a
}

// What a fault strikes. Each has a shade, and a lane below the frame.
const (
	strikesConnections = "connections"
	strikesServers     = "servers"
	strikesClients     = "clients"
	strikesNothing     = "nothing: everything is healed, and the market audited"
)

// strikes is what a fault of a kind strikes.
func strikes(kind string) string {
	switch {
	case kind == result.Quiet:
		return strikesNothing
	case strings.HasPrefix(kind, "server-"), strings.HasPrefix(kind, "lock-"):
		return strikesServers
	case strings.HasPrefix(kind, "client-"), strings.HasPrefix(kind, "process-"):
		return strikesClients
	}
	return strikesConnections
}

func struckShade(kind string) shade {
	switch strikes(kind) {
	case strikesServers:
		return series[1]
	case strikesClients:
		return series[3]
	case strikesNothing:
		return muted
	}
	return series[2]
}

func faultKeys() part {
	var all []key
	for _, kind := range []string{"latency", "server-kill", "client-pause", result.Quiet} {
		g := draw.GlyphStyle{Color: struckShade(kind).color(), Radius: 5, Shape: draw.BoxGlyph{}}
		all = append(all, key{glyph: &g, text: strikes(kind)})
	}
	return keys(all...)
}

// possible are the times that can be.
func possible(all []result.FaultTime, end float64) (times []result.FaultTime) {
	for _, f := range all {
		if sane(f.Start) && sane(f.End) && f.End >= f.Start && f.Start <= end && f.Kind != "" {
			times = append(times, f)
		}
	}
	return times
}

// kindsOf are the kinds of faults, those that strike the same together.
func kindsOf(times []result.FaultTime) (kinds []string) {
	for _, what := range []string{strikesConnections, strikesServers, strikesClients, strikesNothing} {
		var some []string
		for _, f := range times {
			if strikes(f.Kind) == what && !slices.Contains(some, f.Kind) {
				some = append(some, f.Kind)
			}
		}
		slices.Sort(some)
		kinds = append(kinds, some...)
	}
	return kinds[:min(len(kinds), 20)]
}

// laneNames is the room at the left for the names of faults.
const laneNames vg.Length = 74

// lanes say which fault struck when: a lane for each kind, below the frame and on its horizontal axis.
func lanes(x axis, times []result.FaultTime) part {
	const high = 12
	kinds := kindsOf(times)
	return part{vg.Length(len(kinds))*high + 8, func(c draw.Canvas) {
		left, right := c.Min.X+margin+laneNames, c.Max.X-margin-6
		place := func(v float64) vg.Length { return left + vg.Length((x.within(v)-x.min)/(x.max-x.min))*(right-left) }
		for i, kind := range kinds {
			bottom := c.Max.Y - vg.Length(i+1)*high
			c.StrokeLine2(hair(grid), left, bottom, right, bottom)
			for _, f := range times {
				if f.Kind != kind {
					continue
				}
				const thinnest = 1.5 // a short one is seen, too
				from := min(place(f.Start), right-thinnest)
				to := max(place(f.End), from+thinnest)
				fill(c, struckShade(kind).color(), from, bottom+2, to, bottom+high-2)
			}
			noteType.write(c, c.Min.X+margin, bottom+2.5, 0, clean(kind))
		}
	}}
}

// faultsInWords says how often each kind struck.
func faultsInWords(times []result.FaultTime) string {
	var each []string
	for _, kind := range kindsOf(times) {
		n := 0
		for _, f := range times {
			if f.Kind == kind {
				n++
			}
		}
		each = append(each, fmt.Sprintf("%s %d times", clean(kind), n))
	}
	return "Faults: " + listed(each) + "."
}

package chart

import (
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// overTime is the purchases a second over the time of a row.
func overTime(run *result.Run, all []group) []Figure {
	if isSweep(run) {
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
	}
	title, about := "Purchases a second over time", "Each with a scale of its own, from zero"
	if run.Planned() > 1 {
		about += "; the line is the median of the rounds, and the band reaches from their lowest to their highest"
	}
	alt := about + ": " + told(says)
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
	return p, fmt.Sprintf("%s from %s/s (at %s s) to %s/s (at %s s)", g.name(), short(low.y), digits(low.x), short(high.y),
		digits(high.x))
}

// mostSteps is how many steps of a row are drawn: a file of somebody else's may hold any number.
const mostSteps = 600

// course is the purchases a second of a group over time, the median of its rounds with the lowest and the highest.
func course(g group) (points []point, end float64) {
	var step float64
	var rounds [][]int64
	for _, r := range g.rows {
		s := r.Series
		if s == nil || !(s.StepSeconds >= 1e-6 && s.StepSeconds <= 1e6) || step != 0 && s.StepSeconds != step {
			continue
		}
		n := min(len(s.Purchases), mostSteps)
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

package sweep

import (
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// A Line is the points along one axis, at one value of the other if there is one.
type Line struct {
	result.Line
	Values []float64 // of the axis
	Points []int     // where they stand among the points of the sweep
}

// Lines are all Lines of a sweep: those along its first axis, and then those along its second.
func Lines(c result.Config) []Line {
	if len(c.Axes) == 1 {
		l := Line{Line: result.Line{Axis: c.Axes[0].Name}, Values: c.Axes[0].Values}
		for i := range l.Values {
			l.Points = append(l.Points, i)
		}
		return []Line{l}
	}
	var all []Line
	first, second := c.Axes[0], c.Axes[1]
	for j, other := range second.Values {
		l := Line{Line: result.Line{Axis: first.Name, Other: second.Name, OtherValue: other}, Values: first.Values}
		for i := range first.Values {
			l.Points = append(l.Points, i*len(second.Values)+j)
		}
		all = append(all, l)
	}
	for i, other := range first.Values {
		l := Line{Line: result.Line{Axis: second.Name, Other: first.Name, OtherValue: other}, Values: second.Values}
		for j := range second.Values {
			l.Points = append(l.Points, i*len(second.Values)+j)
		}
		all = append(all, l)
	}
	return all
}

// crossings are where one of two strategies passes the other along a line.
func crossings(l Line, points []result.SweepPoint, a, b string) []result.Crossing {
	leaders := make([]string, len(l.Points)) // who is known to be faster, or nobody
	for i, at := range l.Points {
		switch c, _ := Between(points[at], a, b); c.Verdict {
		case result.Faster:
			leaders[i] = a
		case result.Slower:
			leaders[i] = b
		}
	}
	var all []result.Crossing
	last := -1 // where somebody led
	for i, leader := range leaders {
		if leader == "" {
			continue
		}
		if last >= 0 && leaders[last] != leader {
			until := i
			for until+1 < len(leaders) && leaders[until+1] == leader {
				until++
			}
			all = append(all, result.Crossing{
				Line: l.Line, A: leader, B: leaders[last], Before: l.Values[last], After: l.Values[i], Until: l.Values[until],
				Between: slices.Clone(l.Values[last+1 : i]),
			})
		}
		last = i
	}
	return all
}

package sweep

import (
	"cmp"
	"slices"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// A Point is what is known about one place of a sweep.
type Point struct {
	Place       string
	At          []float64            // its value on each axis
	Groups      []result.Group       // of each strategy that has a row
	Comparisons []compare.Comparison // of each two strategies
	// Best are the strategies that none is known to beat here. Loss compares the one with the fewest purchases/s, as A,
	// with the one with the most; nil: there are no two. Both are empty while rounds are missing.
	Best []string
	Loss *compare.Comparison
}

// Points are the places of a sweep, the last axis varying fastest. It returns nil if the run is no sweep.
func Points(run *result.Run) []Point {
	c := run.Manifest.Config
	if len(c.Axes) == 0 {
		return nil
	}
	var all []Point
	at := map[string]int{}
	places := c.Places()
	for i, place := range places {
		all = append(all, Point{Place: place, At: values(c.Axes, i)})
		at[place] = i
	}
	for _, g := range run.Groups() {
		if i, planned := at[g.Place()]; planned {
			all[i].Groups = append(all[i].Groups, g)
		}
	}
	for _, pair := range compare.Of(run) {
		i := at[pair.Place]
		all[i].Comparisons = append(all[i].Comparisons, pair)
	}
	if len(run.CompleteRounds()) == c.Trials { // before that nothing is decided
		for i := range all {
			all[i].judge()
		}
	}
	return all
}

// values are those of the i-th place on each axis.
func values(axes []result.Axis, i int) []float64 {
	at := make([]float64, len(axes))
	for a, axis := range slices.Backward(axes) {
		at[a] = axis.Values[i%len(axis.Values)]
		i /= len(axis.Values)
	}
	return at
}

func (p *Point) judge() {
	for _, g := range p.Groups {
		beaten := slices.ContainsFunc(p.Comparisons, func(c compare.Comparison) bool {
			return c.A == g.Strategy && c.Verdict == compare.Slower || c.B == g.Strategy && c.Verdict == compare.Faster
		})
		if !beaten && g.Problem() == "" {
			p.Best = append(p.Best, g.Strategy)
		}
	}
	if len(p.Groups) < 2 {
		return
	}
	byRate := func(a, b result.Group) int { return cmp.Compare(compare.Rate(a).Center, compare.Rate(b).Center) }
	slowest, fastest := slices.MinFunc(p.Groups, byRate).Strategy, slices.MaxFunc(p.Groups, byRate).Strategy
	for _, c := range p.Comparisons {
		if c.A == fastest && c.B == slowest {
			c = c.Reversed()
		}
		if c.A == slowest && c.B == fastest {
			p.Loss = &c
		}
	}
}

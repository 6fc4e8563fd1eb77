package compare

import (
	"cmp"
	"slices"

	"github.com/marketsim/marketsim/internal/runs"
)

// A Place is what is known about one place of a sweep, which varies one or two axes, such as
// clients and hold.
type Place struct {
	Place       string
	At          []float64    // its value on each axis
	Groups      []runs.Group // of each strategy that has a row
	Comparisons []Comparison // of each two strategies
	// Best are the strategies that no other is known to beat here. Loss compares
	// the slowest, as A, with the fastest; nil: there are no two. Both are empty
	// while rounds are missing.
	Best []string
	Loss *Comparison
}

// Places are the places of a sweep, the last axis varying fastest. Who is best follows
// from what [Of] says of the run. It returns nil if the run is no sweep.
func Places(run *runs.Run, compared []Comparison) []Place {
	c := run.Manifest.Config
	if len(c.Axes) == 0 {
		return nil
	}

	var all []Place
	at := map[string]int{} // its index, by the place
	for i, place := range c.Places() {
		all = append(all, Place{Place: place, At: values(c.Axes, i)})
		at[place] = i
	}

	for _, g := range run.Groups() {
		if i, planned := at[g.Place()]; planned {
			all[i].Groups = append(all[i].Groups, g)
		}
	}
	for _, pair := range compared {
		if pair.OfPurchases() { // which decide who is best
			i := at[pair.Place] // which is planned: Of has it from the same plan
			all[i].Comparisons = append(all[i].Comparisons, pair)
		}
	}

	if len(run.CompleteRounds()) == c.Trials { // before that nothing is decided
		for i := range all {
			all[i].judge()
		}
	}
	return all
}

// values are those of the axes at the i-th place, the last axis varying fastest: the order in
// which runs.Expand makes the points.
func values(axes []runs.Axis, i int) []float64 {
	at := make([]float64, len(axes))
	for a, axis := range slices.Backward(axes) {
		at[a] = axis.Values[i%len(axis.Values)]
		i /= len(axis.Values)
	}
	return at
}

// judge names the best strategies of a place: those that none was shown to beat. Loss is how much
// slower the slowest is than the fastest: what a wrong choice costs there.
func (p *Place) judge() {
	for _, g := range p.Groups {
		beaten := slices.ContainsFunc(p.Comparisons, func(c Comparison) bool {
			return c.A == g.Subject() && c.Verdict == Slower ||
				c.B == g.Subject() && c.Verdict == Faster
		})
		if !beaten && g.Problem() == "" {
			p.Best = append(p.Best, g.Subject())
		}
	}
	if len(p.Groups) < 2 {
		return
	}

	// Each pair was compared once, in either order.
	byRate := func(a, b runs.Group) int {
		return cmp.Compare(Rate(a).Center, Rate(b).Center)
	}
	slowest := slices.MinFunc(p.Groups, byRate).Subject()
	fastest := slices.MaxFunc(p.Groups, byRate).Subject()
	for _, c := range p.Comparisons {
		switch {
		case c.A == slowest && c.B == fastest:
			p.Loss = new(c)
		case c.A == fastest && c.B == slowest:
			p.Loss = new(c.Reversed())
		}
	}
}

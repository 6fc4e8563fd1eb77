package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// Analyse is what a sweep comes to. It returns nil if the run is no sweep, or has no complete round.
func Analyse(run *result.Run) *result.Sweep {
	c := run.Manifest.Config
	rounds := run.Rounds()
	if len(c.Axes) == 0 || len(rounds) == 0 {
		return nil
	}
	s := &result.Sweep{Points: points(run, rounds)}
	for _, l := range Lines(c) {
		for i, a := range c.Strategies {
			for _, b := range c.Strategies[i+1:] {
				s.Crossings = append(s.Crossings, crossings(l, s.Points, a, b)...)
			}
		}
	}
	s.Findings = findings(run, len(rounds), s)
	return s
}

// points are what the complete rounds say about each point.
func points(run *result.Run, rounds [][]result.Row) []result.SweepPoint {
	c := run.Manifest.Config
	type cell struct{ strategy, place string }
	rows := map[cell][]result.Row{}
	for _, round := range rounds {
		for _, r := range round {
			at := cell{r.Strategy, r.Place()}
			rows[at] = append(rows[at], r)
		}
	}
	compared := map[string][]result.Comparison{}
	for _, pair := range compare.Rounds(run) {
		compared[pair.Mix] = append(compared[pair.Mix], pair)
	}
	var all []result.SweepPoint
	for _, p := range c.Points() {
		point := result.SweepPoint{At: p.At, Place: p.String(), Comparisons: compared[p.String()]}
		for _, strategy := range c.Strategies {
			if of := rows[cell{strategy, point.Place}]; len(of) > 0 {
				point.Strategies = append(point.Strategies, measured(strategy, of, run.Planned()))
			}
		}
		if len(rounds) == run.Planned() { // before that nothing is decided
			point.Best, point.Loss = best(point), loss(point)
		}
		all = append(all, point)
	}
	return all
}

// measured is the medians of a strategy's rows at a point, of which so many were planned.
func measured(strategy string, rows []result.Row, planned int) result.Measured {
	m := result.Measured{Strategy: strategy, Rounds: len(rows)}
	for _, r := range rows {
		problem := r.Problem()
		if problem == "" && r.PurchasesPerSecond == 0 {
			problem = "bought nothing"
		}
		if problem != "" && m.Problem == "" {
			m.Problem = fmt.Sprintf("%s in round %d", problem, r.Trial)
		}
	}
	var rates, waits, commands, server []float64
	for _, r := range rows {
		rates, waits = append(rates, r.PurchasesPerSecond), append(waits, r.WaitMS.P99)
		if r.CommandsPerPurchase > 0 {
			commands = append(commands, r.CommandsPerPurchase)
		}
		if r.Cost != nil && r.Cost.ServerUS != nil {
			server = append(server, *r.Cost.ServerUS)
		}
	}
	m.PerSecond, m.P99MS = estimate(rates, planned), estimate(waits, planned)
	for _, of := range []struct {
		values []float64
		to     **result.Estimate
	}{{commands, &m.Commands}, {server, &m.ServerUS}} {
		if len(of.values) == len(rows) { // not the median of some rounds only
			e := estimate(of.values, planned)
			*of.to = &e
		}
	}
	return m
}

// estimate is the median of values. It has an interval if these are all rounds that were planned: whoever stops when an
// interval looks good has none.
func estimate(values []float64, planned int) result.Estimate {
	i := compare.Median(values)
	e := result.Estimate{Median: i.Center}
	if i.Known() && i.N == planned {
		e.Low, e.High = &i.Low, &i.High
	}
	return e
}

// best are the strategies of a point that none is known to beat.
func best(p result.SweepPoint) []string {
	var all []string
	for _, m := range p.Strategies {
		beaten := slices.ContainsFunc(p.Comparisons, func(c result.Comparison) bool {
			return c.A == m.Strategy && c.Verdict == result.Slower || c.B == m.Strategy && c.Verdict == result.Faster
		})
		if !beaten && m.Problem == "" {
			all = append(all, m.Strategy)
		}
	}
	return all
}

// loss is what the slowest strategy of a point costs, or nil where there are no two.
func loss(p result.SweepPoint) *result.Loss {
	fit := slices.DeleteFunc(slices.Clone(p.Strategies), func(m result.Measured) bool { return m.Problem != "" })
	if len(fit) < 2 {
		return nil
	}
	byRate := func(a, b result.Measured) int { return cmp.Compare(a.PerSecond.Median, b.PerSecond.Median) }
	worst, first := slices.MinFunc(fit, byRate).Strategy, slices.MaxFunc(fit, byRate).Strategy
	c, found := Between(p, worst, first)
	if !found || c.Ratio == nil {
		return nil
	}
	return &result.Loss{
		Worst: worst, Best: first, Ratio: *c.Ratio, Low: c.Low, High: c.High, Sure: c.Verdict == result.Slower,
	}
}

// Between is the comparison of two strategies at a point, with a as A, and whether there is one.
func Between(p result.SweepPoint, a, b string) (result.Comparison, bool) {
	for _, c := range p.Comparisons {
		switch {
		case c.A == a && c.B == b:
			return c, true
		case c.A == b && c.B == a:
			return c.Reversed(), true
		}
	}
	return result.Comparison{}, false
}

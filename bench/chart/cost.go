package chart

import (
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// A price is what a purchase costs, as far as a run tells it of most rows.
type price struct {
	name, unit string
	of         func(result.Row) (float64, bool)
}

func prices() []price {
	return []price{
		{"microseconds of the server's CPU for a purchase", " us", func(r result.Row) (float64, bool) {
			if r.Cost == nil || r.Cost.ServerUS == nil {
				return 0, false
			}
			return *r.Cost.ServerUS, *r.Cost.ServerUS > 0
		}},
		{"commands for a purchase", " commands", func(r result.Row) (float64, bool) {
			return r.CommandsPerPurchase, r.CommandsPerPurchase > 0
		}},
	}
}

// costs is what a purchase costs the server, against the purchases that are made: the best is at the top left.
func costs(run *result.Run, all []group) []Figure {
	all = slices.DeleteFunc(slices.Clone(all), func(g group) bool {
		v := g.median(perSecond)
		return g.rows[0].Open != nil || v.n == 0 || v.center == 0
	})
	if isSweep(run) {
		return nil
	}
	var best price
	var drawn []group
	for _, p := range prices() {
		have := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.median(p.of).n == 0 })
		if len(have) > len(drawn) {
			best, drawn = p, have
		}
	}
	if len(drawn) == 0 {
		return nil
	}
	var xs, ys []float64
	for _, g := range drawn {
		xs, ys = append(xs, g.median(best.of).ends()...), append(ys, g.median(perSecond).ends()...)
	}
	say := func(v float64) string { return short(v) + best.unit }
	x, y := logAxis(best.name+" (log scale)", short, decade(xs)...), logAxis("", short, decade(ys)...)
	rate := func(g group) value { return g.median(perSecond) }
	parts, says := inPanels(drawn, x, y, rate, func(g group) (line, key, string) {
		cost, rate := g.median(best.of), rate(g)
		l := line{look: g.look, points: []point{{x: cost.center, y: rate.center, low: rate.low, high: rate.high,
			sure: rate.sure, doubtful: g.problem != ""}}}
		k := l.key(g.strategy, say(cost.center)+", "+short(rate.center)+"/s")
		k.line = nil
		return l, k, fmt.Sprintf("%s %s, %s/s", g.name(), say(cost.center), short(rate.center))
	})
	about := "Purchases a second over " + best.name + ", both scales log: cheap and fast is at the top left; " + basis(run)
	return []Figure{figure(run, "cost", "What a purchase costs", about, about+": "+told(says), parts...)}
}

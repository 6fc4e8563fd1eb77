package chart

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// atOnce is what clients that begin at once need until all have bought, by their number.
func atOnce(run *result.Run, all []group) []Figure {
	if !run.Manifest.Config.AtOnce {
		return nil
	}
	work := func(r result.Row) (float64, bool) {
		return float64(r.Buyers) * float64(r.Bought+r.Retries) / float64(r.Bought), r.Bought > 0 && r.Buyers > 0
	}
	finished := func(r result.Row) (float64, bool) {
		return 1000 * r.Seconds * float64(r.Buyers) / float64(r.Bought), r.Bought > 0 && r.Buyers > 0 && r.Seconds > 0
	}
	var figures []Figure
	for _, f := range []struct {
		name, title, about string
		say                func(float64) string
		of                 func(result.Row) (float64, bool)
	}{
		{"backoff-time", "How long until all have bought", "Time until all clients that began at once have bought one item each",
			milliseconds, finished},
		{"backoff-tries", "How often all of them try", "Tries of all clients together until each has bought one item", short, work},
	} {
		figures = append(figures, byClients(run, all, f.name, f.title, f.about, f.say, f.of)...)
	}
	return figures
}

// byClients is something of every row over the number of its buyers, a line for each strategy.
func byClients(run *result.Run, all []group, name, title, about string, say func(float64) string,
	of func(result.Row) (float64, bool),
) []Figure {
	lines := map[string]*line{}
	var xs, ys []float64
	var drawn []group // the first of each strategy
	for _, g := range all {
		v := g.median(of)
		if v.n == 0 || v.center == 0 {
			continue
		}
		if lines[g.strategy] == nil {
			lines[g.strategy] = &line{look: g.look}
			drawn = append(drawn, g)
		}
		l, n := lines[g.strategy], float64(g.rows[0].Buyers)
		l.points = append(l.points, point{x: n, y: v.center, low: v.low, high: v.high, sure: v.sure, doubtful: g.problem != ""})
		xs, ys = append(xs, n), append(ys, v.ends()...)
	}
	if len(drawn) == 0 {
		return nil
	}
	x, y := logAxis("clients (log scale)", short, xs...), logAxis("", say, ys...)
	var parts []part
	var says []string
	for _, some := range together(drawn) {
		p, ks := panel{x: x, y: y, height: 170}, []key{}
		for _, g := range some {
			l := lines[g.strategy]
			slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
			p.lines = append(p.lines, *l)
			last := l.points[len(l.points)-1]
			ks = append(ks, l.key(g.strategy, say(last.y)))
			says = append(says, fmt.Sprintf("%s %s with %s and %s with %s", g.strategy, say(l.points[0].y), short(l.points[0].x),
				say(last.y), short(last.x)))
		}
		parts = append(parts, p.part(), keys(ks...))
	}
	about += ", both scales log; the number is that of the most clients; " + basis(run)
	return []Figure{figure(run, name, title, about, about+": "+told(says), parts...)}
}

package compare

import (
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
)

// A Scaling is what is known about the purchases/s of a strategy on several masters, as A, over
// those on one, as B. Both are of as many workers, divided among the markets.
type Scaling struct {
	Masters int // on which the markets of A lie
	Comparison
}

// Scalings compare each point of a run whose markets lie on several masters with the same
// point on one, round by round. They say nothing of orders at a rate, which is the same on any
// number of masters. All their intervals hold at once with [Confidence].
//
// Masters that share cores with each other or with the clients are as fast as these cores: then
// it is not decided what they would do on cores of their own.
//
// A and B are names of rows, with their places, because the two differ in that. B is the
// first row, in the order of the plan, that is the same but for its markets, and lies on one
// master.
func Scalings(run *runs.Run) (all []Scaling) {
	one := map[result.Point]runs.Group{} // by the point without its markets
	var several []runs.Group
	for _, g := range run.Groups() {
		switch n := mastersOf(g); {
		case g.Rate > 0 || n == 0:
		case n > 1:
			several = append(several, g)
		case one[withoutMarkets(g.Point)].Rows == nil:
			one[withoutMarkets(g.Point)] = g
		}
	}
	several = slices.DeleteFunc(several, func(g runs.Group) bool { return one[withoutMarkets(g.Point)].Rows == nil })

	// Without a margin only an interval of exactly 1 is no difference.
	margin := 0.0
	if m := run.Manifest.Config.Margin; m != nil {
		margin = *m
	}
	purchases, _ := runs.ParseMetrics(nil) // it cannot fail
	for _, g := range several {
		base := one[withoutMarkets(g.Point)]
		c := Comparison{
			A:          g.Name(),
			B:          base.Name(),
			Place:      g.Place(),
			Metric:     purchases[0],
			Confidence: confidence(len(several)),
		}
		c = compareMasters(c, g, base, run.Manifest.Config.Trials, margin)
		all = append(all, Scaling{Masters: mastersOf(g), Comparison: c})
	}
	return all
}

func withoutMarkets(p result.Point) result.Point {
	p.Markets = 0
	return p
}

// compareMasters fills in what rounds say of rows on several masters and on one. Nothing is
// decided if in some row a master, or the clients, had no core of their own: they take time from
// each other, and one master with all the cores might have sold as much.
func compareMasters(c Comparison, several, one runs.Group, trials int, margin float64) Comparison {
	byRound := map[int]*result.Row{}
	for i := range one.Rows {
		byRound[one.Rows[i].Trial] = &one.Rows[i]
	}

	p := pair{Comparison: c}
	sharing := ""
	for i := range several.Rows {
		a := &several.Rows[i]
		b := byRound[a.Trial]
		p.add(a, b)
		for _, r := range []*result.Row{a, b} {
			if r != nil && sharing == "" {
				sharing = sharesCores(r)
			}
		}
	}

	c = p.judge(trials, margin)
	if sharing != "" && c.Reason == "" {
		c.Verdict = Undecided
		c.Reason = sharing
	}
	return c
}

// mastersOf is on how many masters the markets of a group lie; 0: no row was measured, which
// alone would tell.
func mastersOf(g runs.Group) (most int) {
	for _, r := range g.Rows {
		if r.Seconds > 0 {
			most = max(most, 1, len(r.Masters))
		}
	}
	return most
}

// sharesCores says why the masters of a row did not each have a core of their own, or the
// clients could not use them; empty: they had, and could.
func sharesCores(r *result.Row) string {
	here := 0
	hosts := map[string]int{}
	for _, m := range r.Masters {
		host, _, _ := net.SplitHostPort(m.Address)
		if m.Here {
			here++
		} else {
			hosts[host]++
		}
	}

	if here > 0 && here+1 > r.Cores { // one at least is the clients'
		return fmt.Sprintf("%d masters and the clients share %s", here, english.Plural(r.Cores, "core", ""))
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if n := hosts[host]; n > 1 {
			return fmt.Sprintf("%d masters are at %s, and whether each has a core of its own is not known", n, host)
		}
	}
	if r.Warned(result.ClientLimit) {
		return "the clients were the limit of " + r.Name()
	}
	return ""
}

package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// masterBlocks say what each master did where the markets of a row lie on several.
func masterBlocks(run *runs.Run) []Block {
	t := NewTable("row", "master", "markets", "purchases/s", "commands/s", "server of a core")
	t.names = 2
	for _, g := range measured(run) {
		for _, m := range mastersOf(g) {
			row := cells(inWords(g.Name()), m.Address, fmt.Sprint(m.Markets))
			for _, metric := range masterMetrics(m.Address) {
				row = append(row, Cell{Text: cell(g, metric, run.Manifest.Config.Trials)})
			}
			t.add(row...)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}

	note := "What each master did in the markets that lie on it, its processor time as a share of one core. " +
		"The other tables have what all masters did together."
	return []Block{{Heading: "Masters", Table: t.withoutIdleColumns(none), Note: []string{note}}}
}

// mastersOf are those that a group has in any of its rounds, each once.
func mastersOf(g runs.Group) (all []result.Master) {
	for _, r := range g.Rows {
		for _, m := range r.Masters {
			there := slices.ContainsFunc(all, func(other result.Master) bool { return other.Address == m.Address })
			if !there {
				all = append(all, m)
			}
		}
	}
	return all
}

// masterMetrics are what the master at an address did a second: purchases, commands and
// processor time, in the order of masterBlocks' headings. They are NaN for a row without it.
func masterMetrics(address string) []runs.Metric {
	of := func(unit runs.Unit, number func(m result.Master) float64) runs.Metric {
		return runs.Metric{Unit: unit, Of: func(r *result.Row) float64 {
			i := slices.IndexFunc(r.Masters, func(m result.Master) bool { return m.Address == address })
			if i < 0 || r.Seconds == 0 {
				return math.NaN()
			}
			return number(r.Masters[i]) / r.Seconds
		}}
	}

	// What a master has not told is no number, and not 0.
	return []runs.Metric{
		of(runs.PerSecond, func(m result.Master) float64 { return float64(m.Bought) }),
		of(runs.PerSecond, func(m result.Master) float64 {
			if m.Commands == nil {
				return math.NaN()
			}
			return float64(*m.Commands)
		}),
		of(runs.Percent, func(m result.Master) float64 {
			if m.CPU == nil {
				return math.NaN()
			}
			return *m.CPU
		}),
	}
}

// scalingBlocks say what several masters bought over what one did, or why that is not decided.
func scalingBlocks(run *runs.Run) []Block {
	all := compare.Scalings(run)
	if len(all) == 0 {
		return nil
	}

	t := NewTable("row", "masters", "verdict", "on one master", "ratio", "interval", "rounds", "because").
		Wrapping("because")
	for _, s := range all {
		verdict := string(s.Verdict)
		if s.Verdict.Differs() {
			verdict += " than"
		}
		t.Add(inWords(s.A), fmt.Sprint(s.Masters), verdict, inWords(s.B), ratio(s.Ratio), interval(s.Comparison),
			fmt.Sprint(s.Rounds), inWords(s.Reason))
	}

	note := fmt.Sprintf("purchases/s on several masters over those on one, by as many workers, divided inside each "+
		"round: the median and its interval (at %s, so that all hold at once with 95%%). It is decided only where each "+
		"master has a core of its own and the clients were not the limit.", percent(all[0].Confidence))
	return []Block{{Heading: "More masters", Table: t.withoutIdleColumns("", none), Note: []string{note}}}
}

// scaled says in a sentence what more masters add, of each strategy, or why that is not decided.
func scaled(run *runs.Run) []string {
	var known, unknown []string
	for _, s := range compare.Scalings(run) {
		switch s.Verdict {
		case compare.Undecided:
			unknown = append(unknown, fmt.Sprintf("%s on %d masters (%s)", inWords(s.A), s.Masters,
				cmp.Or(inWords(s.Reason), "the interval is too wide")))
		default:
			known = append(known, fmt.Sprintf("%s on %d masters: %s times (%s)", inWords(s.A), s.Masters, ratio(s.Ratio),
				interval(s.Comparison)))
		}
	}

	// One sentence holds both, as there is one finding for all masters.
	var parts []string
	if len(known) > 0 {
		parts = append(parts, "purchases/s over those on one master: "+listed(known))
	}
	if len(unknown) > 0 {
		parts = append(parts, "not decided what more masters add: "+listed(unknown))
	}
	if len(parts) == 0 {
		return nil
	}
	text := strings.Join(parts, "; ") + "."
	return []string{strings.ToUpper(text[:1]) + text[1:]}
}

package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// nodesSection is what each server had of rows with several markets. Of several rounds it shows medians.
func nodesSection(res *result.Run, rows [][]result.Row, seen view) section {
	s := section{
		title: joined(": ", "Nodes", medians(res)),
		lines: []string{"What each server had of the row. server us: its CPU time for each purchase in its markets."},
		table: &table{header: headings(3, "strategy", "mix", "node", "markets", "bought", "purchases/s", "server us")},
	}
	for _, same := range rows {
		for i, n := range same[0].Nodes {
			us := none
			cost := over(same, func(r result.Row) float64 { return nodeServerUS(nodeOf(r, i)) })
			if !math.IsNaN(cost.Center) {
				us = number(cost.Center)
			}
			s.table.rows = append(s.table.rows, cells(clean(same[0].Strategy), clean(same[0].Place()), clean(n.Address),
				thousands(int64(n.Markets)),
				whole(over(same, func(r result.Row) float64 { return float64(nodeOf(r, i).Bought) }).Center),
				number(over(same, func(r result.Row) float64 { return nodeOf(r, i).PurchasesPerSecond }).Center), us))
		}
	}
	s.meaning = nodesMeaning(seen)
	return s
}

// nodeOf is the i-th node of a row, which may have fewer than another of its rounds.
func nodeOf(r result.Row, i int) result.Node {
	if i < len(r.Nodes) {
		return r.Nodes[i]
	}
	return result.Node{}
}

// nodeServerUS is what a purchase cost a node; not a number where that is not known.
func nodeServerUS(n result.Node) float64 {
	if n.ServerUS == nil {
		return math.NaN()
	}
	return *n.ServerUS
}

// nodesMeaning says how many purchases/s a node made, and what a purchase cost it.
func nodesMeaning(v view) string {
	var remarks []string
	for _, w := range v.fit() {
		nodes := w.rounds[0].Nodes
		if len(nodes) == 0 {
			continue
		}
		var made, cost []float64
		for i := range nodes {
			made = append(made, over(w.rounds, func(r result.Row) float64 { return nodeOf(r, i).PurchasesPerSecond }).Center)
			cost = append(cost, over(w.rounds, func(r result.Row) float64 { return nodeServerUS(nodeOf(r, i)) }).Center)
		}
		each := "each node " + v.verb("made", "makes")
		if len(nodes) == 1 {
			each = "the node " + v.verb("made", "makes")
		}
		remark := fmt.Sprintf("%s %s purchases/s with %s at %s", each, fromTo(slices.Min(made), slices.Max(made), two), w.name,
			w.load)
		if !slices.ContainsFunc(cost, math.IsNaN) {
			remark += ", for " + fromTo(slices.Min(cost), slices.Max(cost), microseconds) + " of its CPU time each"
		}
		remarks = append(remarks, remark)
	}
	if len(remarks) == 0 {
		return nothingJudged
	}
	return v.say(some(v.wrong()), remarks...)
}

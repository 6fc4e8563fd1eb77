package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// openSection is what became of the orders of open loops, and how far each strategy goes under each mix. rows are the rows
// of each strategy, mix and rate.
func openSection(res *result.Run, rows [][]result.Row) section {
	rows = slices.DeleteFunc(slices.Clone(rows), func(same []result.Row) bool { return same[0].Open == nil })
	s := section{
		title: joined(": ", "Open loop", medians(res)),
		lines: []string{fmt.Sprintf("Orders fall due at a rate that was fixed beforehand (%s). Waits in all tables are latencies: "+
			"from when an order was due, waiting for a buyer included. service: from when a buyer took it. backlog: orders due "+
			"and not done at the end. given up: orders without a purchase after 10 s. no stock: time in which nothing was listed.",
			clean(rows[0][0].Open.Arrivals))},
		table: rowTable(res, rows, openTable),
	}
	for _, steps := range ladders(rows) {
		for _, r := range steps {
			if !r.Open.WasReached() {
				s.notes = append(s.notes, fmt.Sprintf("%s: not reached: %s purchases/s were made; %s at the end, %s given up",
					clean(r.Name()), number(r.Open.Reached), waiting(r.Open.Backlog), thousands(r.Open.GivenUp)))
			}
		}
		if text := knee(steps, res.Manifest.Config.SLOMS); text != "" {
			s.notes = append(s.notes, text)
		}
	}
	s.meaning = openMeaning(look(res), ladders(rows))
	return s
}

func waiting(backlog int64) string {
	return count(backlog, "order") + " " + agree(int(backlog), "was", "were") + " waiting"
}

// ladders are the rows of each strategy and mix by rising rate, with the medians of their rounds.
func ladders(rows [][]result.Row) [][]result.Row {
	var all [][]result.Row
	at := map[string]int{}
	for _, same := range rows {
		name := closedName(same[0])
		i, found := at[name]
		if !found {
			i = len(all)
			at[name], all = i, append(all, nil)
		}
		r := same[0]
		if len(same) > 1 {
			r = medianRow(same)
			r.Strategy, r.Sellers, r.Buyers, r.Status = same[0].Strategy, same[0].Sellers, same[0].Buyers, same[0].Status
		}
		all[i] = append(all[i], r)
	}
	for _, steps := range all {
		slices.SortStableFunc(steps, func(a, b result.Row) int { return cmp.Compare(a.Open.Asked, b.Open.Asked) })
	}
	return all
}

// closedName is the name of a row without its rate.
func closedName(r result.Row) string {
	return result.RowName(r.Strategy, r.Mix(), r.Workload, 0)
}

// knee says which is the highest rate of a ladder that was reached and whose 99th percentile stays under slo, in
// milliseconds, and what the next one was like. Without an slo it says which was reached. It is empty where there is
// nothing to say: of one rate without an slo.
func knee(steps []result.Row, slo float64) string {
	name := clean(closedName(steps[0]))
	if slices.ContainsFunc(steps, func(r result.Row) bool { return r.Problem() != "" }) {
		return name + ": how far it goes is not judged, because a row is incomplete or failed its audit"
	}
	if slo == 0 && len(steps) == 1 {
		return ""
	}
	what := "was reached"
	if slo > 0 {
		what += " with a 99th percentile under " + number(slo) + " ms"
	}
	best, good := highest(steps, slo)
	switch {
	case best < 0:
		return fmt.Sprintf("%s: no rate %s; at %s", name, what, step(steps[0]))
	case best == len(steps)-1:
		return fmt.Sprintf("%s: every rate up to the highest that was asked for %s; at %s", name, what, step(steps[best])) +
			but(steps[:best], good)
	}
	return fmt.Sprintf("%s: %s/s is the highest rate that %s; at %s; at %s", name, number(steps[best].Open.Asked), what,
		step(steps[best]), step(steps[best+1])) + but(steps[:best], good)
}

// highest is the last step of a ladder that was reached with its 99th percentile under slo, in milliseconds, or -1; and
// what says so of a step. An slo of 0 asks only that it was reached.
func highest(steps []result.Row, slo float64) (best int, good func(result.Row) bool) {
	good = func(r result.Row) bool {
		return r.Open.WasReached() && r.Bought > 0 && (slo == 0 || r.WaitMS.P99 < slo)
	}
	best = -1
	for i, r := range steps {
		if good(r) {
			best = i
		}
	}
	return best, good
}

// step is what a rate was like: "2,000/s it was 8.21 ms".
func step(r result.Row) string {
	text := number(r.Open.Asked) + "/s "
	switch {
	case r.Bought == 0:
		return text + "nothing was bought"
	case !r.Open.WasReached():
		text += "(" + number(r.Open.Reached) + "/s reached) "
	}
	return text + "the 99th percentile is " + number(r.WaitMS.P99) + " ms"
}

// but names lower rates that were no good, though a higher one was.
func but(lower []result.Row, good func(result.Row) bool) string {
	for _, r := range lower {
		if !good(r) {
			return "; but at " + step(r)
		}
	}
	return ""
}

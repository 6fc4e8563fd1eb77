package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// ofBackoff reports whether a run reproduces [reference.Backoff].
func ofBackoff(res *result.Run) bool {
	return slices.Contains(res.Manifest.Config.Reproduces, reference.Backoff)
}

// backoffTable is what clients who begin at once needed until all had finished, by their number. Of several rounds it
// shows the medians.
func backoffTable(res *result.Run) section {
	about := "How often each client tried until it had bought, how often all did, and the time until all had bought."
	s := section{
		title: joined(": ", "Back-off of clients that begin at once", medians(res)), lines: []string{about},
		table: &table{header: headings(2, "clients", "strategy", "tries/\nclient", "tries\nin all", "all have\nfinished", "audit")},
	}
	groups := lines(res)
	slices.SortStableFunc(groups, func(a, b []result.Row) int { return a[0].Buyers - b[0].Buyers })
	for _, rows := range groups {
		buyers := float64(rows[0].Buyers)
		tries := over(rows, func(r result.Row) float64 { return float64(r.Bought+r.Retries) / float64(r.Bought) })
		finished := over(rows, func(r result.Row) float64 { return 1000 * r.Seconds * buyers / float64(r.Bought) })
		each, time := number(tries.Center), ms(finished.Center, !math.IsNaN(finished.Center))
		if sure(tries, res) && sure(finished, res) {
			each, time = each+" "+reach(tries), time+" "+reach(finished)
		}
		s.table.rows = append(s.table.rows, append(cells(fmt.Sprint(rows[0].Buyers), clean(rows[0].Strategy), each,
			whole(buyers*tries.Center), time), audit(medianRow(rows).Audit)))
	}
	s.meaning = backoffMeaning(look(res))
	return s
}

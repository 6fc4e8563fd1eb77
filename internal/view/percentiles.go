package view

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// enoughLonger is how many waits of a round have to be longer than a percentile before it
// is drawn: the p99.9 of fewer than 10,000 waits is one of the few longest.
const enoughLonger = 10

// latencies shows the percentiles of the waits of each group, from the shortest wait to
// p99.99, along the number of nines: from 90% to 99% it is as far as from 99% to 99.9%.
//
// A percentile is kept as N, where one in N waits is longer: 1, 2, 10 and 100 are p0,
// p50, p90 and p99. The scale is then an ordinary logarithmic one.
func latencies(run *runs.Run) Figure {
	f := Figure{
		Name:  "latency",
		Title: "How long purchases take",
		Note: fmt.Sprintf("Percentiles of the waits, medians of the rounds: half of the waits are longer than at 50%%, "+
			"1 in 1,000 is longer than at 99.9%%. A curve ends where fewer than %d waits of a round are longer.", enoughLonger),
		X: Scale{
			Label: "percentile of the waits",
			Log:   true,
			Ticks: []Tick{
				{At: 1, Label: "0%"}, {At: 2, Label: "50%"}, {At: 10, Label: "90%"},
				{At: 100, Label: "99%"}, {At: 1000, Label: "99.9%"}, {At: 10_000, Label: "99.99%"},
			},
		},
		Y: Scale{Label: "wait", Unit: runs.Milliseconds, Log: true},
	}

	for _, g := range measured(run) {
		rounds := mapped(g.Rows, percentiles)
		for _, n := range oneIn() {
			waits := make([]float64, 0, len(rounds))
			for _, round := range rounds {
				if wait, known := round[n]; known {
					waits = append(waits, wait)
				}
			}
			// A median of some of the rounds would be one of those with the most purchases.
			if len(waits) == len(rounds) {
				f.panel(g.Place()).add(g.Subject(), n, compare.Median(waits).Center)
			}
		}
	}
	return f
}

// oneIn are the percentiles that are drawn, see latencies. 10, 100 and 1000 are among them
// exactly: under these numbers percentiles has what a row without a histogram tells.
func oneIn() []float64 {
	const aDecade, decades = 16, 4
	all := []float64{2} // the median
	for i := range aDecade*decades + 1 {
		all = append(all, math.Pow10(i/aDecade)*math.Pow(10, float64(i%aDecade)/aDecade))
	}
	slices.Sort(all)
	return all
}

// percentiles are the waits of a row in milliseconds by N, of which one in N is longer.
// A row without a histogram, as sweeps store them, has the four that are stored beside it.
func percentiles(r result.Row) map[float64]float64 {
	known := map[float64]float64{}
	keep := func(count int64, n, wait float64) {
		if float64(count)/n >= enoughLonger {
			known[n] = wait
		}
	}

	h, err := hdrhistogram.Decode([]byte(r.Histogram))
	if err != nil || h.TotalCount() <= 0 {
		w := r.WaitMS
		keep(w.Count, 2, w.P50)
		keep(w.Count, 10, w.P90)
		keep(w.Count, 100, w.P99)
		keep(w.Count, 1000, w.P999)
		return known
	}

	count := h.TotalCount()
	bars := h.Distribution()
	// The bars are gone through once: oneIn ascends, and so do the ranks.
	upTo := int64(0) // how many waits are in the bars so far
	i := -1
	for _, n := range oneIn() {
		// By nearest rank, as the numbers of a row: so many waits are at most this long.
		rank := max(1, count-int64(float64(count)/n))
		for upTo < rank && i+1 < len(bars) { // a damaged file may count more than there are
			i++
			upTo += bars[i].Count
		}
		// A bar ends beyond its longest wait, and the longest of all is known.
		keep(count, n, min(float64(bars[i].To)/1000, r.WaitMS.Max))
	}
	return known
}

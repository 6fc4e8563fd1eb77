package report

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
)

// A percentile is known where at least enoughAbove operations lie above it: p99 of 1,000 and more. Of fewer it is one
// of the few largest values, and the next run has another. A table marks it, and a note says which of how many it is.
const (
	enoughAbove = 10
	roughly     = "~"
)

// uncertain reports whether too few operations lie above a percentile by nearest rank. Older runs do not say how many
// there were.
func uncertain(l result.Latency, perMille int64) bool {
	return l.Count != nil && *l.Count > 0 && above(*l.Count, perMille) < enoughAbove
}

// above is how many of n values lie above a percentile by nearest rank, which rounds the rank up.
func above(n, perMille int64) int64 { return n * (1000 - perMille) / 1000 }

// rankNote says of the waits of purchases in each line of a table whose percentile is uncertain which of how many it
// is, or nothing.
func rankNote(lines [][]result.Row, name string, perMille int64) string {
	var each []string
	for _, group := range lines {
		r := group[0]
		if len(group) > 1 {
			r = medianRow(group)
		}
		if !uncertain(r.WaitMS, perMille) {
			continue
		}
		rank := "the largest"
		if k := above(*r.WaitMS.Count, perMille); k > 0 {
			rank = "the " + humanize.Ordinal(int(k+1)) + " largest"
		}
		each = append(each, fmt.Sprintf("%s of %s in %s", rank, thousands(*r.WaitMS.Count), clean(r.Name())))
	}
	if len(each) == 0 {
		return ""
	}
	return fmt.Sprintf("%s fewer than %d purchases waited longer, and another run may differ: %s is %s", roughly,
		enoughAbove, name, strings.Join(each, ", "))
}

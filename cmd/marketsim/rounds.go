package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench"
)

// checkTrials refuses numbers of rounds whose median has no interval worth the name. A 95% interval of a median ends
// at two of the rounds' own values: of 6 at the lowest and the highest, of 9 at the second from either end, of 12 at
// the third, of 15 at the fourth. Fewer rounds than 6 have none; the numbers between have a wider or a lopsided one.
func checkTrials(n int) error {
	var why string
	switch {
	case n < 1:
		why = "each row is measured at least once"
	case n == 1:
		return nil
	case n < 6:
		why = "so few rounds have no 95% interval"
	case n > 15:
		why = "instead of more than 15 rounds, measure for a longer --duration"
	case n%3 == 2:
		why = "the interval of their median is lopsided"
	case n%3 == 1:
		why = fmt.Sprintf("the interval of their median is wider than that of %d", n-1)
	default:
		return nil
	}
	return usageError{fmt.Errorf("--trials %d: %s; give 1, 6, 9, 12 or 15", n, why)}
}

// rows are the rows to run, round after round. In each round every row is there once.
func (c sessionConfig) rows() []bench.Config {
	var rows []bench.Config
	for round := 1; round <= max(1, c.trials); round++ {
		for _, i := range c.order(round) {
			row := c.base
			row.Subject, row.Mix, row.Trial = c.specs[i].subject(), c.specs[i].mix, round
			row.Workload = c.specs[i].workload
			row.Rate, row.Arrivals = c.specs[i].rate, c.open.arrivals
			row.Seed += uint64(round - 1) // prices are drawn anew, and are the same for all rows of a round
			if c.history != "" {
				row.History = c.historyDir(round, i)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// ahead says how many rows there are, and how long they take besides being seeded, audited and removed.
func (c sessionConfig) ahead() string {
	each := c.base.Warmup + c.base.Duration
	round := time.Duration(len(c.specs)) * each
	rounds := max(1, c.trials)
	all := time.Duration(rounds) * round
	what, hint := english.Plural(len(c.specs), "row", ""), ""
	if c.trials > 1 {
		what = fmt.Sprintf("%s of %s", english.Plural(rounds, "round", ""), what)
		if all > 10*time.Minute && c.sweep == nil {
			hint = fmt.Sprintf(" (with --trials 1: %s)", round)
		}
	}
	return fmt.Sprintf("%s of %s, %s in all%s", what, each, all, hint)
}

// order is the order of the rows in a round: drawn from the seed, so that what changes in the course of a run, and what
// one row leaves behind for the next, favours none. A single round is in the order in which it was asked for.
func (c sessionConfig) order(round int) []int {
	if c.trials > 1 {
		return rand.New(rand.NewPCG(c.base.Seed, uint64(round))).Perm(len(c.specs))
	}
	order := make([]int, len(c.specs))
	for i := range order {
		order[i] = i
	}
	return order
}

// unsafeInNames is what is not wanted in the name of a folder.
var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9.,=+_-]+`)

// historyDir is the folder for the history of one row in one round: the one that was asked for if no other row is run,
// else one in it.
func (c sessionConfig) historyDir(round, row int) string {
	dir := c.history
	if c.trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("round-%02d", round))
	}
	if len(c.specs) == 1 {
		return dir
	}
	name := strings.ReplaceAll(c.specs[row].String(), " ", "-")
	return filepath.Join(dir, fmt.Sprintf("%02d-%s", row+1, unsafeInNames.ReplaceAllString(name, "_")))
}

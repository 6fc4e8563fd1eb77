package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// The defaults of reproduce. Nine rounds of nine rows fit in two minutes, if a row takes 0.38 s besides: to be
// seeded, audited and removed.
const (
	reproduceDuration = 900 * time.Millisecond
	reproduceWarmup   = 200 * time.Millisecond
	reproduceTrials   = 9
)

func newReproduce(p *program) *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Reproduce tables 6-1 to 6-3 of Redis in Action",
		Long: `Measure the nine rows of tables 6-1 to 6-3 of Redis in Action and print them beside what the book printed, and
for each of the book's eleven claims whether it holds here.

The rows are measured in nine rounds, in less than two minutes; the first is done after a quarter of a minute. The
tables show medians of the rounds. Each claim is a number that is computed in each round. The claim holds if the 95%
interval of that number's median lies inside the tolerance, does not hold if it lies outside, and is else not decided,
also where a run was interrupted. More rounds are a new run: --trials says beforehand how many.

Counts are scaled to the book's 60 s; --duration 60s --trials 1 is the book's own run, in which nothing has an interval.
Claims are not judged on the embedded server.`,
		Example: `  marketsim reproduce
  marketsim reproduce --duration 60s --trials 1 --out results/mine
  marketsim reproduce --redis redis://localhost:6379`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config(checkTrials)
			if err != nil {
				return err
			}
			if config.specs, err = published(); err != nil {
				return err
			}
			config.book = true
			return p.measure(cmd.Context(), config)
		},
	}
	f.add(cmd, reproduceDuration, reproduceWarmup, reproduceTrials)
	return cmd
}

// published are the rows of the book's tables; a row that two tables share is there once.
func published() ([]rowSpec, error) {
	rows, err := reference.Rows()
	if err != nil {
		return nil, err
	}
	var all []rowSpec
	for _, r := range rows {
		spec, err := catalogue.Full().Parse(r.Locking)
		if err != nil {
			return nil, fmt.Errorf("row of table %s: %w", r.Table, err)
		}
		all = append(all, rowSpec{spec: spec, mix: result.Mix{Sellers: r.Listers, Buyers: r.Buyers}})
	}
	return all, nil
}

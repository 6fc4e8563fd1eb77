package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
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

	// backoffDuration is that of --tables backoff, whose rows take longer where a batch of a hundred buyers does.
	backoffDuration = 600 * time.Millisecond
)

func newReproduce(p *program) *cobra.Command {
	var f sessionFlags
	var tables []string
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Reproduce tables 6-1 to 6-3 of Redis in Action",
		Long: `Measure the nine rows of tables 6-1 to 6-3 of Redis in Action and print them beside what the book printed, and
for each of the book's eleven claims whether it holds here. A row that two tables share is measured once.

The rows are measured in nine rounds, in less than two minutes; the first is done after a quarter of a minute. The
tables show medians of the rounds. Each claim is a number that is computed in each round. The claim holds if the 95%
interval of that number's median lies inside the tolerance, does not hold if it lies outside, and is else not decided,
also where a run was interrupted. More rounds are a new run: --trials says beforehand how many.

Counts are scaled to the book's 60 s; --duration 60s --trials 1 is the book's own run, in which nothing has an interval.
Claims are not judged on the embedded server.

--tables backoff reproduces another source instead: M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog,
2015), whose simulated clients all begin at once to update one thing. Here 10, 50 and 100 buyers begin at once, each to
buy one item under watch, which aborts them all whenever one succeeds: without back-off, and with each kind. The table shows
the tries of a client and the time until all have finished, and the seven claims have ids of their own. The buyers
begin again until 0.6 s are over, or what --duration says, without warm-up; the whole takes about two minutes.`,
		Example: `  marketsim reproduce
  marketsim reproduce --duration 60s --trials 1 --out results/mine
  marketsim reproduce --tables 6-1 --redis redis://localhost:6379
  marketsim reproduce --tables backoff`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			atOnce := slices.Contains(tables, reference.Backoff)
			if atOnce {
				if err := f.forBackoff(tables, cmd.Flags().Changed); err != nil {
					return err
				}
			}
			config, err := f.config(checkTrials)
			if err != nil {
				return err
			}
			if atOnce {
				config.specs, err = rowsAtOnce()
			} else {
				config.specs, err = published(tables)
			}
			if err != nil {
				return err
			}
			config.tables, config.atOnce = tables, atOnce
			return p.measure(cmd.Context(), config)
		},
	}
	f.add(cmd, reproduceDuration, reproduceWarmup, reproduceWarmup, reproduceTrials)
	cmd.Flags().StringSliceVar(&tables, "tables", reference.Tables(), "tables to reproduce, separated by commas, or backoff")
	completeList(cmd, "tables", append(reference.Tables(), reference.Backoff))
	return cmd
}

// forBackoff checks the flags of --tables backoff, and sets the defaults of those that were not given.
func (f *sessionFlags) forBackoff(tables []string, given func(flag string) bool) error {
	switch {
	case len(tables) > 1:
		return usageError{errors.New("--tables backoff is a run of its own: its rows are none of the book's")}
	case given("warmup-max"):
		return usageError{errors.New("--warmup-max: the buyers of --tables backoff begin at once, so that trade is never steady")}
	}
	if !given("duration") {
		f.duration = backoffDuration
	}
	if !given("warmup") {
		f.warmup = 0
	}
	f.most = f.warmup
	return nil
}

// rowsAtOnce are the rows on which the claims about back-off are judged.
func rowsAtOnce() ([]rowSpec, error) {
	var all []rowSpec
	for _, name := range bench.AtOnceStrategies() {
		spec, err := catalogue.Full().Parse(name)
		if err != nil {
			return nil, fmt.Errorf("row of --tables backoff: %w", err)
		}
		for _, mix := range bench.AtOnceMixes() {
			all = append(all, rowSpec{spec: spec, mix: mix})
		}
	}
	return all, nil
}

// published are the rows of the book's tables; a row that two tables share is there once.
func published(tables []string) ([]rowSpec, error) {
	rows, err := reference.Rows(tables...)
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

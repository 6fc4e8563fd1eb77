package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/results/reference"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func newReproduce(args []string) *cobra.Command {
	var f sessionFlags
	var tables []string
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Reproduce tables 6-1 to 6-3 of Redis in Action",
		Long: `Measure the nine rows of tables 6-1 to 6-3 of Redis in Action and print them beside what the book printed, and
for each of the book's eight claims whether it holds here. Counts are scaled to the book's 60 s; --duration 60s is the
book's own run. A row that two tables share is measured once. Claims are not judged on the embedded server.`,
		Example: `  marketsim reproduce
  marketsim reproduce --duration 60s --out results/mine
  marketsim reproduce --tables 6-1 --redis redis://localhost:6379`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			traders, err := published(tables)
			if err != nil {
				return err
			}
			return f.measure(cmd, args, traders, bench.Config{Funds: bench.DefaultFunds}, tables)
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&tables, "tables", reference.Tables(), "tables to reproduce, separated by commas")
	completeList(cmd, "tables", reference.Tables())
	return cmd
}

// published are the rows of the book's tables; a row that two tables share is there once.
func published(tables []string) ([]trader, error) {
	if len(tables) == 0 { // which would mean all of them
		return nil, usageError{errors.New("--tables names no table")}
	}
	rows, err := reference.Rows(tables...)
	if err != nil {
		return nil, err
	}
	var all []trader
	for _, r := range rows {
		spec, err := catalogue.Full().Parse(r.Locking)
		if err != nil {
			return nil, fmt.Errorf("row of table %s: %w", r.Table, err)
		}
		all = append(all, trader{spec, bench.Mix{Sellers: r.Listers, Buyers: r.Buyers}})
	}
	return all, nil
}

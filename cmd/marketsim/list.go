package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// widest is how wide a column of a list may be before it is wrapped, so that a list fits a wide terminal.
const widest = 50

func newList() *cobra.Command {
	locks, scenarios := false, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the strategies, locks and parameters, with where they come from",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case scenarios:
				return listScenarios(cmd.OutOrStdout())
			case locks:
				return listPromises(cmd.OutOrStdout(), catalogue.Full().Locks)
			}
			return list(cmd.OutOrStdout(), catalogue.Full())
		},
	}
	cmd.Flags().BoolVar(&locks, "locks", false, "what each lock promises, and how its waiters are woken")
	cmd.Flags().BoolVar(&scenarios, "scenarios", false, "what 'marketsim faults' plays, and what each scenario needs")
	cmd.MarkFlagsMutuallyExclusive("locks", "scenarios")
	return cmd
}

// listPromises prints which lock makes which promise, and below that how its waiters are woken and where it comes from.
func listPromises(w io.Writer, kinds []lock.Kind) error {
	header := []string{"lock"}
	for _, p := range (lock.Promises{}).List() {
		header = append(header, strings.NewReplacer(" ", "\n", "-", "-\n").Replace(p.Name))
	}
	promises, origins := [][]string{header}, [][]string{{"lock", "waiters are woken by", "source"}}
	for _, k := range kinds {
		row := []string{k.Name}
		for _, p := range k.Promises.List() {
			row = append(row, made(k, p))
		}
		promises = append(promises, row)
		origins = append(origins, []string{k.Name, k.Wakes, k.Source})
	}
	if err := plainTable(w, promises); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n\n", ensembleNote)
	return plainTable(w, origins)
}

const ensembleNote = "* with three servers or more (--zookeeper, --etcd); a run's private server is alone, and does not survive its loss"

// made says whether a kind makes a promise, with a mark where it takes more servers than a run starts by itself.
func made(k lock.Kind, p lock.Promise) string {
	alone := k.Needs == lock.NeedsZooKeeper || k.Needs == lock.NeedsEtcd
	switch {
	case !p.Made:
		return "-"
	case alone && p.Name == "survives node loss":
		return "yes*"
	}
	return "yes"
}

// list prints the catalogue.
func list(w io.Writer, c strategies.Catalogue) error {
	ways := [][]string{{"strategy", "how it works", "source"}}
	locks := [][]string{{"lock", "how it works", "source"}}
	params := [][]string{{"parameter of", "name=default", "what it is"}}
	for _, s := range c.Strategies {
		ways = append(ways, []string{s.Name, s.Summary, s.Source})
		params = append(params, paramRows(s.Name, s.Params)...)
	}
	for _, k := range c.Locks {
		locks = append(locks, []string{k.Name, k.Summary, k.Source})
		params = append(params, paramRows(k.Name, k.Params)...)
	}
	for _, rows := range [][][]string{ways, locks, params} {
		if err := plainTable(w, rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, specSyntax)
	return err
}

// paramRows are the parameters of a strategy or lock.
func paramRows(of string, params []param.Param) [][]string {
	var rows [][]string
	for _, p := range params {
		rows = append(rows, []string{of, p.Name + "=" + p.Default, p.Summary})
	}
	return rows
}

// plainTable prints a table without borders, which reads well and greps well. The first row is its header.
func plainTable(w io.Writer, rows [][]string) error {
	var out bytes.Buffer
	cells := tw.CellConfig{
		Formatting:   tw.CellFormatting{AutoWrap: tw.WrapNormal, AutoFormat: tw.Off},
		Alignment:    tw.CellAlignment{Global: tw.AlignLeft},
		Padding:      tw.CellPadding{Global: tw.Padding{Right: "  ", Overwrite: true}},
		ColMaxWidths: tw.CellWidth{Global: widest},
	}
	table := tablewriter.NewTable(&out,
		tablewriter.WithConfig(tablewriter.Config{Header: cells, Row: cells}),
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowHeaderLine: tw.Off},
			},
		})),
	)
	table.Header(rows[0])
	if err := table.Bulk(rows[1:]); err != nil {
		return err
	}
	if err := table.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

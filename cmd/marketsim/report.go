package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/report"
)

func newReport() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "report DIR|run.json|faults.json",
		Short: "Redraw a stored run or stored faults, without Redis",
		Example: `  marketsim report results/2026-11-20
  marketsim report run.json --format csv
  marketsim report faults.json --format markdown`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path, ok := faultsIn(args[0]); ok {
				res, err := loadFaults(path)
				if err != nil {
					return err
				}
				return drawFaults(cmd.OutOrStdout(), format, res)
			}
			res, err := load(args[0])
			if err != nil {
				return err
			}
			if format == "text" {
				return report.Text(cmd.OutOrStdout(), res, report.Options{Color: isTerminal(cmd.OutOrStdout())})
			}
			return report.Write(cmd.OutOrStdout(), format, res)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "one of "+strings.Join(report.Formats(), ", "))
	complete(cmd, "format", report.Formats())
	return cmd
}

// load reads a result from a file, or from run.json in a folder.
func load(path string) (*bench.Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, resultFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	res, err := bench.ReadResult(f)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return res, nil
}

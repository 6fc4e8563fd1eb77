package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

func newReport(p *program) *cobra.Command {
	f := outputFlags{formats: report.RunFormats()}
	var row string
	cmd := &cobra.Command{
		Use:   "report DIR|run.json|faults.json",
		Short: "Redraw a stored run or stored faults, without Redis",
		Long: `Redraw what is stored: the run.json or faults.json of a folder or, if it has neither, every stored result below
it, with tables of numbers (*.csv). The format gobench is for runs: a line for each row and trial, which
golang.org/x/perf/cmd/benchstat reads. The format hgrm is for one row, which --row names: the percentiles of its waits,
which HdrHistogram's plotter reads (hdrhistogram.github.io/HdrHistogram/plotFiles.html).`,
		Example: `  marketsim report results/2026-11-22
  marketsim report run.json --format csv
  marketsim report run.json --format gobench > new.txt && benchstat old.txt new.txt
  marketsim report run.json --format hgrm --row 'fine 5x5 at 2000/s' > fine-2000.hgrm
  marketsim report faults.json --format markdown`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.interrupts.ends(atOnce)
			doc, err := load(args[0])
			if err == nil && row != "" {
				doc, err = doc.Only(row)
			}
			if err != nil {
				return usageError{err}
			}
			return f.show(p.stdout, p.stderr, doc)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&row, "row", "", "draw only the rows of a run that have this `name`, such as 'fine 5x5'")
	return cmd
}

// load reads a stored result from a file, or from the one of its folder: run.json before faults.json. A folder that has
// neither stands for all that is stored below it.
func load(path string) (*report.Document, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return loadFile(path)
	}
	for _, name := range []string{runFile, faultsFile} {
		if file := filepath.Join(path, name); exists(file) {
			return loadFile(file)
		}
	}
	var names []string
	var docs []*report.Document
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		known := slices.Contains([]string{".json", ".csv"}, filepath.Ext(file))
		if err != nil || !entry.Type().IsRegular() || !known {
			return err
		}
		doc, err := loadFile(file)
		names, docs = append(names, file), append(docs, doc)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0:
		return nil, fmt.Errorf("%s holds no %s and no %s, and nothing below it does", path, runFile, faultsFile)
	}
	return report.Several(names, docs), nil
}

// loadFile reads a stored result, whose form its name and its content tell.
func loadFile(path string) (*report.Document, error) {
	content, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	var doc *report.Document
	switch {
	case filepath.Ext(path) == ".csv":
		doc, err = records(content)
	case filepath.Base(path) == faultsFile || bytes.Contains(content, []byte(`"findings"`)):
		var faults *result.Faults
		if faults, err = result.ReadFaults(bytes.NewReader(content)); err == nil {
			doc = report.Faults(faults)
		}
	default:
		var run *result.Run
		if run, err = result.ReadRun(bytes.NewReader(content)); err == nil {
			doc = report.Run(run)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// readBounded reads a file up to one byte more than a result may have, so that a device has an end.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, result.MaxBytes+1))
}

// records are the lines of a CSV file.
func records(content []byte) (*report.Document, error) {
	all, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("it is empty")
	}
	if err != nil {
		return nil, err
	}
	return report.Records(nil, all, nil).InWords(fmt.Sprintf("%s as stored: nothing was measured or judged here.",
		english.Plural(len(all)-1, "line", ""))), nil
}

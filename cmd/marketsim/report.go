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

	"github.com/marketsim/marketsim/bench/page"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

func newReport(p *program) *cobra.Command {
	f := outputFlags{formats: append(report.RunFormats(), page.HTML)}
	var row string
	cmd := &cobra.Command{
		Use:   "report DIR|FILE...",
		Short: "Redraw stored runs, sweeps and faults, without Redis",
		Long: `Redraw what is stored: of each folder its run.json, sweep.json or faults.json or, if it has none of them, every stored
result below it, with tables of numbers (*.csv). Several results are drawn one after the other.

The format csv has a line for each row and trial, or for each finding of a scenario. What a row has a list of, such as its
nodes or the steps of its course, has no column: it is in json.

The format html is one page for a browser, with pictures: it needs no network, and can be mailed and printed. The format
gobench is for runs: a line for each row and trial, which golang.org/x/perf/cmd/benchstat reads. The format hgrm is for one
row, which --row names: the percentiles of its waits, which HdrHistogram's plotter reads
(hdrhistogram.github.io/HdrHistogram/plotFiles.html).`,
		Example: `  marketsim report results/2026-11-22
  marketsim report results/2026-11-22 results/faults --format html -o report.html
  marketsim report run.json --format csv
  marketsim report run.json --format json | jq -r '.rows[] | .strategy as $s | .nodes[]? | [$s, .address, .bought] | @csv'
  marketsim report run.json --format gobench -o new.txt && benchstat old.txt new.txt
  marketsim report run.json --format hgrm --row 'fine 5x5 at 2000/s' -o fine-2000.hgrm
  marketsim report faults.json --format markdown`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.interrupts.ends(atOnce)
			out, err := f.prepared()
			if err != nil {
				return err
			}
			doc, err := load(args)
			if err == nil && row != "" {
				doc, err = doc.Only(row)
			}
			if err == nil {
				err = report.CheckFormat(out.format, append(doc.Formats(), page.HTML))
			}
			if err != nil {
				return usageError{err}
			}
			return out.finish(p.stdout, p.stderr, doc)
		},
	}
	f.add(cmd)
	f.addFile(cmd)
	cmd.Flags().StringVar(&row, "row", "", "draw only the rows of a run that have this `name`, such as 'fine 5x5'")
	return cmd
}

// load reads stored results from files and folders. Of a single one it is the document, else one document of all.
func load(paths []string) (*report.Document, error) {
	var names []string
	var docs []*report.Document
	alone := len(paths) == 1
	for _, path := range paths {
		files, below, err := resultFiles(path)
		if err != nil {
			return nil, err
		}
		alone = alone && !below
		for _, file := range files {
			doc, err := loadFile(file)
			if err != nil {
				return nil, err
			}
			names, docs = append(names, file), append(docs, doc)
		}
	}
	if alone {
		return docs[0], nil
	}
	return report.Several(names, docs), nil
}

// resultFiles are the files that a path stands for: itself, or the one result of a folder: run.json before sweep.json before
// faults.json. A folder that has none of them stands for all that is stored below it.
func resultFiles(path string) (files []string, below bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case !info.IsDir():
		return []string{path}, false, nil
	}
	for _, name := range []string{runFile, sweepFile, faultsFile} {
		if file := filepath.Join(path, name); exists(file) {
			return []string{file}, false, nil
		}
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		known := slices.Contains([]string{".json", ".csv"}, filepath.Ext(file))
		if err == nil && entry.Type().IsRegular() && known {
			files = append(files, file)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s holds no %s, %s or %s, and nothing below it does", path, runFile, sweepFile, faultsFile)
	}
	return files, true, err
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
	case holdsFaults(path, content):
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

// holdsFaults reports whether a stored result is one of fault scenarios. A run has rows, and may have findings, too.
func holdsFaults(path string, content []byte) bool {
	has := func(field string) bool { return bytes.Contains(content, []byte(`"`+field+`"`)) }
	return filepath.Base(path) == faultsFile || has("findings") && !has("rows")
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

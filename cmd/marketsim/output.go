package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/report"
)

// resultFile is the name of a stored result in its folder.
const resultFile = "run.json"

// outputs is where a result goes besides the terminal.
type outputs struct {
	json string // file for run.json; "-" is stdout, and nothing else goes there then
	dir  string // folder for run.json and the tables made from it
}

func (o *outputs) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.json, "json", "", "`file` for the result as JSON; - is stdout, which gets nothing else then")
	cmd.Flags().StringVar(&o.dir, "out", "", "`folder` for run.json, report.txt, report.md and rows.csv")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("json", "json")
}

// prepare makes sure, before anything is measured, that the result can be written.
func (o outputs) prepare() error {
	if o.dir != "" {
		if err := os.MkdirAll(o.dir, 0o777); err != nil {
			return usageError{fmt.Errorf("--out: %w", err)}
		}
		if err := probe(o.dir); err != nil {
			return usageError{fmt.Errorf("--out: %w", err)}
		}
	}
	if o.json == "" || o.json == "-" {
		return nil
	}
	info, err := os.Stat(o.json)
	switch {
	case err == nil && info.IsDir():
		return usageError{fmt.Errorf("--json: %s is a folder", o.json)}
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or a pipe: written to as it is
	}
	if err := probe(filepath.Dir(o.json)); err != nil {
		return usageError{fmt.Errorf("--json: %w", err)}
	}
	return nil
}

// save stores the result as it is now: after each row, so that nothing measured is lost with the process.
func (o outputs) save(res *bench.Result) error {
	var errs []error
	if o.json != "" && o.json != "-" {
		errs = append(errs, store(o.json, res.Write))
	}
	if o.dir != "" {
		errs = append(errs,
			store(filepath.Join(o.dir, resultFile), res.Write),
			store(filepath.Join(o.dir, "report.txt"), func(w io.Writer) error { return report.Text(w, res, report.Options{}) }),
			store(filepath.Join(o.dir, "report.md"), func(w io.Writer) error { return report.Markdown(w, res) }),
			store(filepath.Join(o.dir, "rows.csv"), func(w io.Writer) error { return report.CSV(w, res) }),
		)
	}
	return errors.Join(errs...)
}

// paths are the file and the folder that save writes to.
func (o outputs) paths() []string {
	var paths []string
	if o.json != "" && o.json != "-" {
		paths = append(paths, o.json)
	}
	if o.dir != "" {
		paths = append(paths, o.dir)
	}
	return paths
}

// show prints the result: as JSON if stdout was asked for it, else as text.
func (o outputs) show(w io.Writer, res *bench.Result) error {
	if o.json == "-" {
		return res.Write(w)
	}
	return report.Text(w, res, report.Options{Color: isTerminal(w)})
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/report"
)

// faultOutputs is where faults go, and how they are drawn.
type faultOutputs struct {
	json   bool
	format string
	dir    string
}

func (o *faultOutputs) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.json, "json", false, "print them as JSON, as --format json does")
	flags.StringVar(&o.format, "format", "text", "one of "+strings.Join(report.FaultFormats(), ", "))
	flags.StringVar(&o.dir, "out", "", "`folder` for faults.json, faults.txt and faults.md")
	_ = cmd.MarkFlagDirname("out")
	complete(cmd, "format", report.FaultFormats())
}

// prepare makes sure, before anything is played, that the result can be drawn and written.
func (o *faultOutputs) prepare() error {
	if o.json {
		o.format = "json"
	}
	if !slices.Contains(report.FaultFormats(), o.format) {
		return report.WriteFaults(io.Discard, o.format, nil) // says which there are
	}
	if o.dir == "" {
		return nil
	}
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return usageError{fmt.Errorf("--out: %w", err)}
	}
	if err := probe(o.dir); err != nil {
		return usageError{fmt.Errorf("--out: %w", err)}
	}
	return nil
}

// save stores the result with what is made from it.
func (o *faultOutputs) save(res *fault.Result) error {
	if o.dir == "" {
		return nil
	}
	var errs []error
	for name, format := range map[string]string{faultsFile: "json", "faults.txt": "text", "faults.md": "markdown"} {
		errs = append(errs, store(filepath.Join(o.dir, name), func(w io.Writer) error {
			return report.WriteFaults(w, format, res)
		}))
	}
	return errors.Join(errs...)
}

// show prints the result.
func (o *faultOutputs) show(w io.Writer, res *fault.Result) error {
	return drawFaults(w, o.format, res)
}

// drawFaults prints faults in a format, with colors if a person watches.
func drawFaults(w io.Writer, format string, res *fault.Result) error {
	if format == "text" {
		return report.FaultText(w, res, report.Options{Color: isTerminal(w)})
	}
	return report.WriteFaults(w, format, res)
}

// loadFaults reads stored faults.
func loadFaults(path string) (*fault.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	res, err := fault.ReadResult(f)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return res, nil
}

// faultsIn is the path of stored faults, where a path names them: their folder, or a file of that name.
func faultsIn(path string) (string, bool) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, resultFile)); err == nil {
			return "", false // a run
		}
		path = filepath.Join(path, faultsFile)
		_, err := os.Stat(path)
		return path, err == nil
	}
	return path, holdsFaults(path)
}

// holdsFaults reports whether a file is named as stored faults are, or holds some.
func holdsFaults(path string) bool {
	if filepath.Base(path) == faultsFile {
		return true
	}
	content, err := os.ReadFile(path)
	var file struct {
		Findings *json.RawMessage `json:"findings"`
	}
	return err == nil && json.Unmarshal(content, &file) == nil && file.Findings != nil
}

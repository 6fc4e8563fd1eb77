package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/view"
)

const (
	runFile      = "run.json"
	faultsFile   = "faults.json"
	exploredFile = "explored.json"
)

// The formats in which results are drawn.
const (
	asText     = "text"
	asCSV      = "csv"
	asJSON     = "json"
	asMarkdown = "markdown"
	asGobench  = "gobench"
	asJSONL    = "jsonl" // the intervals of rows, a line each
	asHTML     = "html"
	asSVG      = "svg" // of one figure
)

var (
	runFormats    = []string{asText, asMarkdown, asCSV, asJSON, asGobench, asJSONL}
	reportFormats = append(slices.Clone(runFormats), asHTML, asSVG)
	faultsFormats = []string{asText, asMarkdown, asJSON}
	checkFormats  = []string{asText, asJSON}
)

// A namedResult is a result with the path from which it was read; empty: it was just made.
type namedResult struct {
	name   string
	result storedResult
}

// draw writes results, of which there is one at least, in a format. CSV and the benchmark
// format are for runs. JSON is for one result, as that of several would have to say which is
// which, and has behind the rows of a run what is concluded from them.
func draw(w io.Writer, format string, all ...namedResult) error {
	switch format {
	case asCSV, asJSONL, asGobench:
		return drawRows(w, format, all)
	case asJSON:
		if len(all) > 1 {
			return usagef("json is one result, and these are %d", len(all))
		}
		if run, is := all[0].result.(*runs.Run); is {
			judged := *run // a copy: verdicts are not stored with a run
			judged.Verdicts = compare.Verdicts(run)
			return judged.Write(w)
		}
		return all[0].result.Write(w)
	}

	docs := make([]*view.Doc, len(all))
	for i, one := range all {
		docs[i] = docOf(one.result)
		if len(all) > 1 {
			docs[i].Title = one.name + ": " + docs[i].Title
		}
	}
	return drawDocs(w, format, docs...)
}

// drawRows writes the rows of runs for other programs.
func drawRows(w io.Writer, format string, all []namedResult) error {
	var rows []view.NamedRun
	for _, one := range all {
		run, is := one.result.(*runs.Run)
		if !is {
			return usagef("%s is for runs: findings and schedules are drawn as %s", format,
				strings.Join(faultsFormats, ", "))
		}
		rows = append(rows, view.NamedRun{Name: one.name, Run: run})
	}

	switch format {
	case asCSV:
		return view.CSV(w, rows...)
	case asJSONL:
		return drawIntervals(w, rows)
	}
	for _, run := range rows {
		if err := view.Gobench(w, run.Run); err != nil {
			return err
		}
	}
	return nil
}

// drawIntervals writes the intervals of all rows, a line each. Those of one run do not name
// it: they are as program.row prints them while it is measured.
func drawIntervals(w io.Writer, all []view.NamedRun) error {
	hasIntervals := func(row result.Row) bool { return len(row.Course) > 0 }
	for _, one := range all { // before the first line is written
		if !slices.ContainsFunc(one.Run.Rows, hasIntervals) {
			return usagef("%s holds no intervals, as those of sweeps are not stored: "+
				"'marketsim sweep --format jsonl' prints them", one.Name)
		}
	}

	for _, one := range all {
		name := ""
		if len(all) > 1 {
			name = one.Name
		}
		for _, row := range one.Run.Rows {
			if err := view.Intervals(w, name, row, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func docOf(d storedResult) *view.Doc {
	switch d := d.(type) {
	case *runs.Run:
		return view.Run(d)
	case *findings.FaultTable:
		return view.Faults(d)
	case *findings.Explorations:
		return view.Explored(d)
	}
	panic(fmt.Sprintf("no document shows a %T", d))
}

// drawDocs writes documents as a page or, one below the other, as text. A terminal gets
// lines as wide as it is: widthOf knows one by w's method Fd, which most writers around it lack.
func drawDocs(w io.Writer, format string, docs ...*view.Doc) error {
	if format == asHTML {
		return view.HTML(w, docs...)
	}

	write := view.Text
	if format == asMarkdown {
		write = view.Markdown
	} else if columns, is := widthOf(w); is {
		write = func(w io.Writer, d *view.Doc) error { return view.Terminal(w, d, columns) }
	}
	for i, d := range docs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := write(w, d); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wording"
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

// An output says where a result is written: to stdout in a format, and as JSON
// into a folder.
type output struct {
	format  string
	formats []string // those of the command
	// The folder, and the name of the result in it; without a folder nothing is stored.
	dir, file string
	force     bool // the result may replace another
}

func (o *output) add(flags *pflag.FlagSet, formats []string) {
	o.formats = formats
	flags.StringVar(&o.format, "format", asText, "`format`: "+strings.Join(formats, ", "))
}

// addFolder adds the flags of add, and those of a folder in which the result is stored.
func (o *output) addFolder(flags *pflag.FlagSet, formats []string, file string) {
	o.add(flags, formats)
	o.file = file
	flags.StringVar(&o.dir, "out", "", "`folder` that gets "+file+", which 'marketsim report' draws")
	flags.BoolVar(&o.force, "force", false, "let --out replace a "+file+" that is there already")
}

// prepare makes sure, before anything runs, that the result can be drawn and stored,
// and that it replaces no other.
func (o output) prepare() error {
	if !slices.Contains(o.formats, o.format) {
		return usagef("--format: %s", wording.Unknown("format", o.format, o.formats))
	}
	if o.dir == "" {
		return nil
	}

	path := filepath.Join(o.dir, o.file)
	err := takesFolder(o.dir)
	if err == nil {
		err = takesResult(path)
	}
	if err == nil {
		err = makeFolder(o.dir)
	}
	if err != nil {
		return usagef("--out: %w", err)
	}
	if exists(path) && !o.force {
		return usagef("--out: %s is there already: name another folder, or give --force to replace it", path)
	}
	return nil
}

// A storedResult is a result that is stored and drawn: of a run, of fault scenarios,
// or of searches of schedules.
type storedResult interface{ Write(io.Writer) error }

func (o *output) save(d storedResult) error {
	if o.dir == "" {
		return nil
	}
	path := filepath.Join(o.dir, o.file)
	err := takesResult(path) // what was there at first may have been replaced
	if err == nil {
		err = store(path, o.force, d.Write)
	}
	o.force = o.force || err == nil // the next save replaces this one
	return err
}

// finish stores the result and draws it on stdout: one that could not be stored, too.
func (o *output) finish(p *program, d storedResult) error {
	fmt.Fprint(p.stderr, "") // on a terminal, removes the line that shows the progress
	err := o.save(d)
	if err == nil && o.dir != "" {
		p.notice("stored in %s", o.dir)
	}
	if o.format == asJSONL { // the lines are written while rows are measured
		return err
	}
	return errors.Join(err, draw(p.stdout, o.format, namedResult{"", d}))
}

// A namedResult is a result with the path from which it was read; empty: it was just made.
type namedResult struct {
	name   string
	result storedResult
}

// draw writes results in a format. CSV and the benchmark format are for runs. JSON is for
// one result, as that of several would have to say which is which, and has behind the rows of
// a run what is concluded from them.
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

// drawIntervals writes the intervals of all rows, a line each.
func drawIntervals(w io.Writer, all []view.NamedRun) error {
	for _, one := range all {
		name := ""
		if len(all) > 1 {
			name = one.Name
		}

		some := false
		for _, row := range one.Run.Rows {
			some = some || len(row.Course) > 0
			if err := view.Intervals(w, name, row, 0); err != nil {
				return err
			}
		}
		if !some {
			return usagef("%s holds no intervals, as those of sweeps are not stored: "+
				"'marketsim sweep --format jsonl' prints them", one.Name)
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
// lines as wide as it is.
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

// exists reports whether something is there, be it a link that leads nowhere.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeFolder makes a folder unless it is there, and tries to make a file in it.
func makeFolder(dir string) error {
	if dir == "-" {
		return errors.New("- is no folder: the result is on stdout without it, as --format says")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".marketsim-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// store replaces a file in one step, so that a reader never sees half of it. Without
// replace it fails if there is one. google/renameio would do this, but not on Windows. A
// device or a pipe is written to as it is.
func store(path string, replace bool, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content.Bytes(), 0o666)
	}

	f, err := os.CreateTemp(filepath.Dir(path), ".marketsim-*")
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	_, err = f.Write(content.Bytes())
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // CreateTemp lets only the user read it

	// Of two commands that store at the same time, one fails to make the empty file, which the
	// rename then replaces.
	var claimed *os.File
	if err == nil && !replace {
		claimed, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o666)
		_ = claimed.Close() // it may be nil
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
		if err != nil && claimed != nil {
			_ = os.Remove(path) // or the next command would find a result there
		}
	}
	if err != nil {
		return fmt.Errorf("store result: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

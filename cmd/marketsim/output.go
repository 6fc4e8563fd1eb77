package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/page"
	"github.com/marketsim/marketsim/bench/report"
)

// The names of stored results in their folder.
const (
	runFile    = "run.json"
	sweepFile  = "sweep.json"
	faultsFile = "faults.json"
)

// outputs is where a result goes.
type outputs struct {
	format string            // of what goes to stdout
	file   string            // the file that gets this instead of stdout, or empty
	json   string            // the file that gets JSON, or empty
	dir    string            // the folder that gets files, or empty
	force  bool              // files in it may be replaced
	files  map[string]string // the names of these files, and their formats
}

// outputFlags are the flags for what a command prints and stores. They mean the same in every command.
type outputFlags struct {
	outputs
	formats []string // nil: those that every command has
}

// add adds the flags of what is printed.
func (f *outputFlags) add(cmd *cobra.Command) {
	if f.formats == nil {
		f.formats = report.Formats()
	}
	flags := cmd.Flags()
	flags.StringVar(&f.json, "json", "", "`file` for the result as JSON; - is stdout, which gets nothing else then")
	flags.StringVar(&f.format, "format", report.Text, "`format` of stdout: "+strings.Join(f.formats, ", "))
	_ = cmd.MarkFlagFilename("json", "json")
	complete(cmd, "format", f.formats)
}

// addFile adds the flag of a file that gets what is printed.
func (f *outputFlags) addFile(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "`file` that gets what else goes to stdout")
	_ = cmd.MarkFlagFilename("output")
}

// addFolder adds the flags of a folder that gets the result in several formats.
func (f *outputFlags) addFolder(cmd *cobra.Command, files map[string]string, names string) {
	f.files = files
	cmd.Flags().StringVar(&f.dir, "out", "", "`folder` for "+names)
	cmd.Flags().BoolVar(&f.force, "force", false, "let --out replace the result that its folder holds")
	_ = cmd.MarkFlagDirname("out")
}

// beside is outputs whose files in the folder have other names, so that those that are there stay.
func (o outputs) beside(prefix string) outputs {
	files := map[string]string{}
	for name, format := range o.files {
		files[prefix+name] = format
	}
	o.files = files
	return o
}

// replacingNothing is outputs without the files that are there already.
func (o outputs) replacingNothing() outputs {
	if exists(o.json) {
		o.json = ""
	}
	for name := range o.files {
		if o.dir != "" && exists(filepath.Join(o.dir, name)) {
			o.dir = ""
		}
	}
	return o
}

// runFiles are the files of a run's folder.
func runFiles() map[string]string {
	return map[string]string{
		runFile: report.JSON, "report.txt": report.Text, "report.md": report.Markdown, "rows.csv": report.CSV,
	}
}

// config checks the flags.
func (f outputFlags) config() (outputs, error) {
	o := f.outputs
	if err := report.CheckFormat(o.format, f.formats); err != nil {
		return o, fmt.Errorf("--format: %w", err)
	}
	if o.file == "-" {
		o.file = ""
	}
	if o.file != "" && o.file == o.json {
		return o, usageError{fmt.Errorf("--json and -o both want %s: give one of them", o.file)}
	}
	if o.json == "-" {
		if o.format != report.Text && o.format != report.JSON {
			return o, usageError{fmt.Errorf("--json - and --format %s both want stdout: give one of them", o.format)}
		}
		if o.file != "" {
			return o, usageError{fmt.Errorf("--json - is for stdout, and -o for %s instead: give one of them", o.file)}
		}
		o.format, o.json = report.JSON, ""
	}
	return o, nil
}

// prepared is config, with prepare.
func (f outputFlags) prepared() (outputs, error) {
	o, err := f.config()
	if err == nil {
		err = o.prepare()
	}
	return o, err
}

// prepare makes sure, before anything runs, that the result can be written, and that it replaces no other.
func (o outputs) prepare() error {
	if o.dir != "" {
		if err := makeFolder(o.dir); err != nil {
			return usageError{fmt.Errorf("--out: %w", err)}
		}
		for name := range o.files {
			if path := filepath.Join(o.dir, name); exists(path) && !o.force {
				return usageError{fmt.Errorf("--out: %s is there already: name another folder, or give --force to replace it", path)}
			}
		}
	}
	for _, file := range []struct{ flag, path string }{{"-o", o.file}, {"--json", o.json}} {
		if err := writable(file.flag, file.path); err != nil {
			return err
		}
	}
	return nil
}

// writable makes sure that the file that a flag names can be written, if it names one.
func writable(flag, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return usageError{fmt.Errorf("%s: %s is a folder", flag, path)}
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or a pipe, which store writes to as it is
	}
	if err := probe(filepath.Dir(path)); err != nil {
		return usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	return nil
}

// save stores a result as it is now.
func (o outputs) save(d *report.Document) error {
	var errs []error
	if o.json != "" {
		errs = append(errs, storeReport(o.json, d, report.JSON))
	}
	if o.dir != "" {
		for name, format := range o.files {
			errs = append(errs, storeReport(filepath.Join(o.dir, name), d, format))
		}
	}
	return errors.Join(errs...)
}

func storeReport(path string, d *report.Document, format string) error {
	return store(path, func(w io.Writer) error { return draw(w, d, format, report.Options{}) })
}

// draw writes a result in a format: the page, or one of package report.
func draw(w io.Writer, d *report.Document, format string, opts report.Options) error {
	if format == page.HTML {
		return page.Write(w, d)
	}
	return d.Write(w, format, opts)
}

// finish stores and prints a result, and says on stderr where it is stored.
func (o outputs) finish(stdout, stderr io.Writer, d *report.Document) error {
	saved := o.save(d)
	var shown error
	if o.file != "" {
		saved = errors.Join(saved, storeReport(o.file, d, o.format))
	} else {
		shown = draw(stdout, d, o.format, report.Options{Color: isTerminal(stdout)})
	}
	if saved == nil {
		for _, path := range []string{o.file, o.json, o.dir} {
			if path != "" {
				fmt.Fprintf(stderr, "stored in %s\n", path)
			}
		}
	}
	return errors.Join(saved, shown)
}

// show is prepared and finish, for a result that takes no time to make.
func (f outputFlags) show(stdout, stderr io.Writer, d *report.Document) error {
	f.formats = d.Formats()
	o, err := f.prepared()
	if err != nil {
		return err
	}
	return o.finish(stdout, stderr, d)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeFolder makes a folder unless it is there, and makes sure that files can be made in it.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return probe(dir)
}

// missing are the folders that are not there yet.
func missing(dirs ...string) (absent []string) {
	for _, dir := range dirs {
		if dir != "" && !exists(dir) {
			absent = append(absent, dir)
		}
	}
	return absent
}

// removeEmpty removes folders, unless they hold something.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // which fails if it holds something
	}
}

// probe makes sure that files can be made in a folder.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".marketsim-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// store replaces a file in one step, so that a reader never sees half of it. google/renameio would do this, but not on
// Windows.
func store(path string, write func(io.Writer) error) error {
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
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("store result: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

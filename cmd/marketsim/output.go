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

	"github.com/marketsim/marketsim/internal/wording"
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
// device or a pipe is written to as it is. Links are followed: its callers have refused, with
// followsNoLink, those that another user may have put there.
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

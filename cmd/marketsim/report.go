package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/stored"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/view"
)

type reportFlags struct {
	out          output
	file, figure string
	locks        []string
}

func newReport(p *program) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:  "report DIR|FILE...",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return f.report(p, args) },
	}
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.add(flags, runFormats)
		flags.StringVarP(&f.file, "output", "o", "",
			"`file` to write instead of stdout; .html is a page, and .svg a figure")
		flags.StringVar(&f.figure, "figure", "", "`name` of the figure that is drawn as .svg")
		flags.StringSliceVar(&f.locks, "lock", nil, "say briefly what was found about these `SPEC`s of locks or strategies")
	})
	cmd.MarkFlagsMutuallyExclusive("figure", "format", "lock")
	_ = cmd.RegisterFlagCompletionFunc("figure",
		func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			all, _ := load(args) // what cannot be read has no figures
			for _, one := range all {
				for _, figure := range figuresOf(one.drawing) {
					names = append(names, figure.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
	return cmd
}

func (f reportFlags) report(p *program, paths []string) error {
	if err := f.out.prepare(); err != nil {
		return err
	}
	all, err := load(paths)
	if err != nil {
		return usageError{err}
	}
	ending := strings.ToLower(filepath.Ext(f.file))
	write := func(w io.Writer) error { return draw(w, f.out.format, all...) }
	if len(f.locks) > 0 {
		docs, err := about(f.locks, all)
		if err != nil {
			return err
		}
		write = func(w io.Writer) error { return drawDocs(w, f.out.format, docs...) }
	}
	switch {
	case ending == ".svg" || f.figure != "":
		write = func(w io.Writer) error { return f.drawFigure(w, all) }
	case ending == ".html":
		f.out.format = asHTML
	}
	if f.file == "" || f.file == "-" {
		return write(p.stdout)
	}
	target, _ := os.Stat(f.file)
	for _, one := range all {
		if read, err := os.Stat(one.name); err == nil && os.SameFile(read, target) {
			return usagef("-o: %s is a result to be reported: name another file", f.file)
		}
	}
	if err := store(f.file, true, write); err != nil {
		return usagef("-o: %w", err)
	}
	fmt.Fprintf(p.stderr, "stored in %s\n", f.file)
	return nil
}

func about(schemes []string, all []named) (docs []*view.Doc, err error) {
	for _, scheme := range schemes {
		one, err := told(scheme, all)
		if err == nil && len(found(scheme, "", all)) == 0 {
			err = usagef("there are no findings and no schedules of %s in it", scheme)
		}
		if err != nil {
			return nil, fmt.Errorf("--lock: %w", err)
		}
		docs = append(docs, &view.Doc{Title: one[0].Title, Facts: one[0].Facts, Blocks: one[0].Blocks[:1]})
	}
	return docs, nil
}

func figuresOf(d drawing) []view.Figure {
	switch d := d.(type) {
	case *result.Run:
		return view.Figures(d)
	case *verify.Explorations:
		return view.Schedules(d)
	}
	return nil
}

// drawFigure draws the named or only figure of the one result: of a run, or the shortest
// schedule to a scheme's harm.
func (f reportFlags) drawFigure(w io.Writer, all []named) error {
	var figures []view.Figure
	if len(all) == 1 {
		figures = figuresOf(all[0].drawing)
	}
	var names []string
	for _, figure := range figures {
		if figure.Name == f.figure || f.figure == "" && len(figures) == 1 {
			return view.SVG(w, figure)
		}
		names = append(names, figure.Name)
	}
	return usagef("--figure: %s", strategies.UnknownName("figure of one result", f.figure, names))
}

func load(paths []string) (all []named, err error) {
	for _, path := range paths {
		files, err := resultFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			one, err := loadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// resultFiles are the files that a path stands for: itself, or each result in a
// folder or below it.
func resultFiles(path string) (files []string, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, err
	}
	names := []string{runFile, faultsFile, exploredFile}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(names, entry.Name()) {
			files = append(files, file)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s holds no %s, and nothing below it does", path, strings.Join(names, " or "))
	}
	return files, err
}

// loadFile reads a stored result, whose content tells its kind: runs have rows, faults
// findings, explorations searches.
func loadFile(path string) (named, error) {
	f, err := stored.Open(path, stored.MaxBytes)
	if err != nil {
		return named{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, stored.MaxBytes))
	if err != nil {
		return named{}, err
	}
	var d drawing
	has := func(field string) bool { return bytes.Contains(content, []byte(`"`+field+`":`)) }
	switch {
	case has("searches") && !has("rows"):
		d, err = verify.ReadExplored(bytes.NewReader(content))
	case has("findings") && !has("rows"):
		d, err = verify.ReadFaults(bytes.NewReader(content))
	default:
		d, err = result.ReadRun(bytes.NewReader(content))
	}
	if err != nil {
		return named{}, fmt.Errorf("%s: %w", path, err)
	}
	return named{path, d}, nil
}

func loadOnly[T drawing](dir, file string) (only T, err error) {
	one, err := loadFile(filepath.Join(dir, file))
	if err != nil {
		return only, err
	}
	only, is := one.drawing.(T)
	if !is {
		err = fmt.Errorf("%s holds another kind of result", one.name)
	}
	return only, err
}

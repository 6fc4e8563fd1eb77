package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wording"
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
		Args: arguments(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.report(p, args, cmd.Flags().Changed("format"))
		},
	}
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.add(flags, reportFormats)
		flags.StringVarP(&f.file, "output", "o", "",
			"`file` to write instead of stdout; without --format its ending decides: .txt, .md, .csv, .json, "+
				".jsonl, .html (a page) or .svg (a figure)")
		flags.StringVar(&f.figure, "figure", "", "`name` of the figure that is drawn as svg; by default the first")
		flags.StringSliceVar(&f.locks, "lock", nil, "say briefly what was found about these `SPEC`s of locks or strategies")
	})

	cmd.MarkFlagsMutuallyExclusive("format", "lock")
	cmd.MarkFlagsMutuallyExclusive("figure", "lock")
	_ = cmd.RegisterFlagCompletionFunc("figure",
		func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			all, _ := loadAll(args) // what cannot be read has no figures
			for _, one := range all {
				for _, figure := range figuresOf(one.result) {
					names = append(names, figure.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
	return cmd
}

// report draws the results that paths stand for or, with --lock, what they say of some schemes.
// It reads all of them before it writes anything.
func (f reportFlags) report(p *program, paths []string, formatGiven bool) error {
	if err := f.out.prepare(); err != nil {
		return err
	}
	format, err := f.format(paths, formatGiven)
	if err != nil {
		return err
	}
	all, err := loadAll(paths)
	if err != nil {
		return usageError{err}
	}

	write := func(w io.Writer) error { return draw(w, format, all...) }
	others := "" // figures that were not asked for
	switch {
	case len(f.locks) > 0:
		docs, err := about(f.locks, all)
		if err != nil {
			return err
		}
		write = func(w io.Writer) error { return drawDocs(w, format, docs...) }
	case format == asSVG:
		figure, beside, err := f.pick(all)
		if err != nil {
			return err
		}
		others = beside
		write = func(w io.Writer) error { return view.SVG(w, figure) }
	}
	if err := f.storeReport(p, all, write); err != nil {
		return err
	}
	if others != "" {
		fmt.Fprintln(p.stderr, others)
	}
	return nil
}

// storeReport writes the report to stdout, or to the file of -o, which it replaces. It
// refuses a file that is one of the results that are reported.
func (f reportFlags) storeReport(p *program, all []namedResult, write func(io.Writer) error) error {
	if f.file == "" || f.file == "-" {
		return write(p.stdout)
	}

	if err := followsNoLink(f.file); err != nil {
		return usagef("-o: %w", err)
	}
	target, _ := os.Stat(f.file) // nil: it is not there, and no result is the same file
	for _, one := range all {
		if read, err := os.Stat(one.name); err == nil && os.SameFile(read, target) {
			return usagef("-o: %s is a result to be reported: name another file", f.file)
		}
	}

	const replace = true
	if err := store(f.file, replace, write); err != nil {
		return usagef("-o: %w", err)
	}
	fmt.Fprintf(p.stderr, "stored in %s\n", f.file)
	return nil
}

// format is the one that was asked for: by --format, else by the ending of the file, else by
// --figure. given says whether --format was.
func (f reportFlags) format(paths []string, given bool) (format string, err error) {
	format = f.out.format
	if !given {
		byName, err := f.formatOf(paths)
		if err != nil {
			return "", err
		}
		if f.figure != "" {
			byName = cmp.Or(byName, asSVG)
		}
		format = cmp.Or(byName, format)
	}

	switch {
	case f.figure != "" && format != asSVG:
		return "", usagef("--figure is drawn as svg, and not as %s: name a file that ends in .svg", format)
	case len(f.locks) > 0 && !slices.Contains([]string{asText, asMarkdown, asHTML}, format):
		return "", usagef("--lock tells in words, and not as %s: name a file that ends in .txt, .md or .html", format)
	}
	return format, nil
}

// about is what results say of schemes, a document for each.
func about(schemes []string, all []namedResult) (docs []*view.Doc, err error) {
	for _, scheme := range schemes {
		one, err := describe(scheme, all)
		if err == nil && len(evidence(scheme, "", all)) == 0 {
			err = usagef("there are no findings and no schedules of %s in it", scheme)
		}
		if err != nil {
			return nil, fmt.Errorf("--lock: %w", err)
		}
		// The first block is the evidence; what parameters there are is left out.
		docs = append(docs, &view.Doc{Title: one[0].Title, Facts: one[0].Facts, Blocks: one[0].Blocks[:1]})
	}
	return docs, nil
}

func figuresOf(d storedResult) []view.Figure {
	switch d := d.(type) {
	case *runs.Run:
		return view.Figures(d)
	case *findings.Explorations:
		return view.Schedules(d)
	}
	return nil
}

// pick is the named or the first figure of the one result: of a run, or the shortest
// schedule to a scheme's harm. If none was named, others tells of those beside it.
func (f reportFlags) pick(all []namedResult) (figure view.Figure, others string, err error) {
	if len(all) != 1 {
		return figure, "", usagef("svg is a figure of one result, and these are %d: name one of them, "+
			"or write a page of all with -o FILE.html", len(all))
	}
	figures := figuresOf(all[0].result)
	if len(figures) == 0 {
		return figure, "", usagef("there is no figure in %s: write a page with -o FILE.html", all[0].name)
	}

	var names []string
	for _, figure := range figures {
		if figure.Name == f.figure {
			return figure, "", nil
		}
		names = append(names, figure.Name)
	}
	if f.figure != "" {
		return figure, "", usagef("--figure: %s", wording.Unknown("figure", f.figure, names))
	}

	const most = 12 // names in one line
	rest := names[1:]
	if len(rest) > most {
		rest = append(slices.Clone(rest[:most]), fmt.Sprintf("and %d more", len(rest)-most))
	}
	if len(rest) > 0 {
		others = fmt.Sprintf("this is the figure %s; --figure draws another: %s", names[0], strings.Join(rest, ", "))
	}
	return figures[0], others, nil
}

// loadAll reads the results of all paths, in their order, up to the first that cannot be read.
func loadAll(paths []string) (all []namedResult, err error) {
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
	// With the separator a link to a folder is followed, as Stat above has done.
	folder := path + string(filepath.Separator)
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
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
func loadFile(path string) (namedResult, error) {
	f, err := stored.Open(path, stored.MaxBytes)
	if err != nil {
		return namedResult{}, err
	}
	defer f.Close()

	content, err := io.ReadAll(io.LimitReader(f, stored.MaxBytes))
	if err != nil {
		return namedResult{}, err
	}

	// Each kind has a field whose name stands nowhere in the others, however deep. What has none, or
	// has rows beside another one, is read as a run, whose reader says what is wrong.
	var d storedResult
	has := func(field string) bool { return bytes.Contains(content, []byte(`"`+field+`":`)) }
	switch {
	case has("searches") && !has("rows"):
		d, err = findings.ReadExplorations(bytes.NewReader(content))
	case has("findings") && !has("rows"):
		d, err = findings.ReadFaultTable(bytes.NewReader(content))
	default:
		d, err = runs.Read(bytes.NewReader(content))
	}
	if err != nil {
		return namedResult{}, fmt.Errorf("%s: %w", path, err)
	}
	return namedResult{path, d}, nil
}

func loadOnly[T storedResult](dir, file string) (only T, err error) {
	one, err := loadFile(filepath.Join(dir, file))
	if err != nil {
		return only, err
	}
	only, is := one.result.(T)
	if !is {
		err = fmt.Errorf("%s holds another kind of result", one.name)
	}
	return only, err
}

package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/chart"
	"github.com/marketsim/marketsim/strategies"
)

// pngWidth is how many pixels wide a PNG is: three for each that a telephone shows it with.
const pngWidth = 1080

// plotFlags are those of the command plot.
type plotFlags struct {
	figure, output string
	list           bool
}

func newPlot(p *program) *cobra.Command {
	var f plotFlags
	cmd := &cobra.Command{
		Use:   "plot DIR|run.json|sweep.json",
		Short: "Draw one figure of a stored run or sweep as SVG or PNG, without Redis",
		Long: `Draw one figure of a stored run or sweep: the first, which answers what most people ask, or the one that --figure
names. --list says which there are: each run has those that it holds numbers for. The ending of the file decides the
format. An SVG scales to any width, is dark where its reader prefers that, and carries its content in words; a PNG is
1080 pixels wide, on white. Medians have whiskers where their 95% intervals are known.`,
		Example: `  marketsim plot results/2026-11-22-redis-7.0.15 --list
  marketsim plot results/2026-11-22-redis-7.0.15 -o throughput.svg
  marketsim plot run.json --figure latency -o latency.png`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.interrupts.ends(atOnce)
			return f.plot(p, args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	cmd.Flags().StringVar(&f.figure, "figure", "", "`name` of the figure; without, the first")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "`file` that gets the picture: its name ends in .svg or .png")
	cmd.Flags().BoolVar(&f.list, "list", false, "say which figures there are, and draw none")
	_ = cmd.MarkFlagFilename("output", "svg", "png")
	_ = cmd.RegisterFlagCompletionFunc("figure", offerFigures)
	return cmd
}

// offerFigures completes the name of a figure of the run that is named already.
func offerFigures(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	figures, err := figuresIn(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return figureNames(figures), cobra.ShellCompDirectiveNoFileComp
}

func (f plotFlags) plot(p *program, path string) error {
	if err := f.check(); err != nil {
		return usageError{err}
	}
	figures, err := figuresIn(path)
	if err != nil {
		return usageError{err}
	}
	if f.list {
		var rows [][]string
		for _, figure := range figures {
			rows = append(rows, []string{figure.Name, figure.Title})
		}
		_, err := fmt.Fprintln(p.stdout, strings.Join(aligned(rows), "\n"))
		return err
	}
	i := 0
	if f.figure != "" {
		if i = slices.Index(figureNames(figures), f.figure); i < 0 {
			return usageError{errors.New(strategies.Unknown("figure", quotable(f.figure), figureNames(figures)))}
		}
	}
	figure := figures[i]
	draw := figure.SVG
	if strings.EqualFold(filepath.Ext(f.output), ".png") {
		draw = func(w io.Writer) error { return figure.PNG(w, pngWidth) }
	}
	if err := store(f.output, draw); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "drawn in %s: %s\n", f.output, figure.Title)
	return nil
}

// check refuses what cannot be drawn, before anything is.
func (f plotFlags) check() error {
	switch {
	case f.list && (f.output != "" || f.figure != ""):
		return errors.New("--list draws nothing: leave out --figure and --output")
	case f.list:
		return nil
	case f.output == "":
		return errors.New("give -o FILE.svg or -o FILE.png, or --list to see which figures there are")
	}
	if ext := strings.ToLower(filepath.Ext(f.output)); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("--output %s: its name must end in .svg or .png", f.output)
	}
	return writable("--output", f.output)
}

// figuresIn are the figures of a stored run, in a file or in its folder.
func figuresIn(path string) ([]chart.Figure, error) {
	run, err := readRun(path)
	if err != nil {
		return nil, err
	}
	figures := chart.Of(run)
	if len(figures) == 0 {
		return nil, fmt.Errorf("%s holds no numbers that could be drawn", path)
	}
	return figures, nil
}

func figureNames(figures []chart.Figure) (names []string) {
	for _, f := range figures {
		names = append(names, f.Name)
	}
	return names
}

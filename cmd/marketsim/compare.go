package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// compareFlags are those of the command compare.
type compareFlags struct {
	runFlags
	margin string
}

func newCompare(p *program) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare SPEC SPEC... | OLD NEW",
		Short: "Say which strategy is faster, or whether that is not known",
		Long: `Measure strategies in rounds, each row once a round and in a new order, and say of each two of them under each
mix: faster, slower, no difference or not decided. What is judged is purchases/s of one over those of the other, divided
inside each round: the median of the rounds, with an interval that assumes nothing but that rounds are independent.

  faster, slower  the interval excludes 1
  no difference   it lies inside 1 +- the margin, even where it excludes 1
  not decided     neither; how many rounds might do is an estimate from the spread of these

With m pairs each interval has a confidence of 1-0.05/m, so that all hold at once with 95%. The number of rounds is
fixed before the first: rounds that were cut short decide nothing, and more rounds are a new run.

Or compare what two run.json or sweep.json, or their folders, say about the rows that both have. Nothing is measured then,
and a row is faster or slower only where the 95% intervals of its two medians are disjoint. What else differs is said
first: machine, server, backend, duration, warm-up, mixes, axes. --hot, --hold and --rtt are
explained by 'marketsim run --help'.

` + specSyntax,
		Example: `  marketsim compare fine fine-wallet --mix 5x5,5x20
  marketsim compare coarse coarse:set-px --trials 15 --margin 2% --out results/set-px
  marketsim compare watch-item fine lua --hot 1 --mix 0x8 --hold 1ms --rtt 1ms
  marketsim compare fine fine:poll=1ms            the same strategy twice: what is found then is chance
  marketsim compare old/run.json new/run.json`,
		Args: severalSubjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			margin, err := parseMargin(f.margin)
			if err != nil {
				return err
			}
			specs, files, err := subjects(args)
			switch {
			case err != nil:
				return err
			case len(files) > 0:
				p.interrupts.ends(atOnce)
				return f.stored(p, cmd.Flags(), files, margin)
			}
			config, err := f.paired(specs, args, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			config.margin = &margin
			return p.measure(cmd.Context(), config)
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return specOffers(catalogue.Full(), typed, false), cobra.ShellCompDirectiveNoSpace
		},
	}
	f.add(cmd)
	return cmd
}

func (f *compareFlags) add(cmd *cobra.Command) {
	const duration = 5 * time.Second // two strategies take less than two minutes
	f.sessionFlags.add(cmd, duration, bench.DefaultWarmup, 9)
	flags := cmd.Flags()
	flags.Lookup("trials").Usage = fmt.Sprintf("rounds, a multiple of 3 from 6 to %d, and the more the more pairs there are",
		compare.MaxRounds)
	flags.StringSliceVar(&f.mixes, "mix", []string{defaultMix}, "mixes of sellers and buyers, separated by commas")
	flags.StringVar(&f.margin, "margin", "5%", "ratios so near to 1 are no difference")
	f.locks.add(cmd)
	f.workload.add(cmd)
	completeList(cmd, "mix", []string{"1x1", "5x1", "5x5"})
}

// severalSubjects refuses less than two words.
func severalSubjects(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("compare what? give two or more strategies, or two stored runs")
	case 1:
		return fmt.Errorf("compare %s with what? give another strategy, or another stored run", quotable(args[0]))
	}
	return nil
}

// parseMargin reads a percentage as a fraction.
func parseMargin(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !isPercent || !(percent >= 0 && percent < 100) {
		return 0, usageError{fmt.Errorf("--margin %q: it takes a percentage below 100%%, such as 5%%", text)}
	}
	return percent / 100, nil
}

// subjects reads what is to be compared: strategies, or else the names of two stored runs. A word that could be both is
// a strategy; ./fine is a file.
func subjects(args []string) (specs []strategies.Spec, files []string, err error) {
	for _, arg := range args {
		spec, err := catalogue.Full().Parse(arg)
		switch {
		case err == nil:
			specs = append(specs, spec)
		case exists(arg):
			files = append(files, arg)
		case strings.ContainsAny(arg, `/\`) || filepath.Ext(arg) == ".json":
			return nil, nil, usageError{fmt.Errorf("there is no file %s", arg)}
		default:
			return nil, nil, fmt.Errorf("%w; and there is no file of that name", err)
		}
	}
	switch {
	case len(specs) > 0 && len(files) > 0:
		err = fmt.Errorf("%s is a strategy and %s a file: give strategies only, or two stored runs", specs[0], files[0])
	case len(files) > 2:
		err = fmt.Errorf("two stored runs are compared, and these are %d", len(files))
	default:
		return specs, files, nil
	}
	return nil, nil, usageError{err}
}

// paired is the session that measures strategies in rounds.
func (f compareFlags) paired(specs []strategies.Spec, typed []string, given func(string) bool) (sessionConfig, error) {
	workload, err := f.workload.config(given)
	if err != nil {
		return sessionConfig{}, err
	}
	mixes, err := f.parseMixes(given, workload.Hot > 0)
	if err != nil {
		return sessionConfig{}, err
	}
	var rows []rowSpec
	for _, mix := range mixes {
		for i, name := range subjectNames(specs, typed) {
			rows = append(rows, rowSpec{spec: specs[i], mix: mix, workload: workload, as: name})
		}
	}
	if err := errors.Join(checkRepeated(rows), checkWorkloads(rows)); err != nil {
		return sessionConfig{}, err
	}
	pairs := compare.Pairs(len(specs), len(mixes))
	c, err := f.sessionFlags.config(func(rounds int) error { return checkRounds(rounds, pairs) })
	if err != nil {
		return sessionConfig{}, err
	}
	c.specs, c.base.Workload = rows, workload
	c.locks, err = f.locks.config(rows)
	return c, err
}

// checkRounds refuses numbers of rounds that cannot decide. They are multiples of 3, because the interval of a median of 7
// or 8 rounds is wider than that of 6, and so on.
func checkRounds(rounds, pairs int) error {
	const step = 3
	fewest := (compare.Fewest(pairs) + step - 1) / step * step
	switch {
	case rounds%step != 0 || rounds < 6 || rounds > compare.MaxRounds:
		return usageError{fmt.Errorf("--trials %d: give a multiple of 3 from %d to %d: fewer rounds than 6 have no interval, and "+
			"between two multiples it does not become narrower", rounds, fewest, compare.MaxRounds)}
	case rounds < fewest:
		return usageError{fmt.Errorf("--trials %d: these are %d pairs, so that intervals need more confidence: give %d or more, or "+
			"fewer strategies, mixes or points", rounds, pairs, fewest)}
	}
	return nil
}

// subjectNames are the names of strategies in the result: their canonical form or, where that is another's too, what was
// typed, so that a strategy can be compared with itself.
func subjectNames(specs []strategies.Spec, typed []string) []string {
	count := map[string]int{}
	for _, s := range specs {
		count[s.String()]++
	}
	names := make([]string, len(specs))
	used := map[string]int{}
	for i, s := range specs {
		names[i] = s.String()
		if count[names[i]] > 1 {
			names[i] = typed[i]
		}
		if used[names[i]]++; used[names[i]] > 1 {
			names[i] += fmt.Sprintf("#%d", used[names[i]])
		}
	}
	return names
}

// stored compares two stored runs.
func (f compareFlags) stored(p *program, flags *pflag.FlagSet, files []string, margin float64) (err error) {
	flags.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "margin", "format", "json":
		default:
			err = usageError{fmt.Errorf("--%s is for strategies: stored runs are compared as they are", flag.Name)}
		}
	})
	var runs [2]*result.Run
	for i, file := range files {
		if err == nil {
			runs[i], err = readRun(file)
		}
	}
	if err != nil {
		return usageError{err}
	}
	found, err := compare.Stored(runs[0], runs[1], margin)
	if err != nil {
		return usageError{err}
	}
	return f.out.show(p.stdout, p.stderr, report.Runs(files[0], files[1], found))
}

// readRun reads a stored run from a file or from its folder.
func readRun(path string) (*result.Run, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir := path
		if path = filepath.Join(dir, runFile); !exists(path) {
			path = filepath.Join(dir, sweepFile)
		}
		if !exists(path) {
			return nil, fmt.Errorf("%s holds no %s and no %s", dir, runFile, sweepFile)
		}
	}
	content, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	if holdsFaults(path, content) {
		return nil, fmt.Errorf("%s holds the findings of fault scenarios, which 'marketsim report' draws", path)
	}
	run, err := result.ReadRun(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

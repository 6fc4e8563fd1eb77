package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// sweepFlags are those of the command sweep.
type sweepFlags struct {
	sessionFlags
	strategies, axes []string
	clients          int
	workload         workloadFlags
	margin           string
	locks            lockFlags
	yes              bool
}

func newSweep(p *program) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep --strategy SPEC[,SPEC...] --axis NAME=VALUES [--axis NAME=VALUES]",
		Short: "Measure strategies along one or two axes: which is best where, and where one passes another",
		Long: `Measure strategies at each point of one or two axes, in the rounds of compare: in each round every strategy is measured
once at every point, in a new order. Ratios are made inside a round, and all intervals hold at once with 95%. It then says
which strategy is the fastest at each point, where along an axis one passes another and where that is not decided, and what
the worst choice costs.

` + axisSyntax + `

What is not an axis has one value: --clients, --hot, --hold, --rtt.

It says beforehand how long it will take. More than an hour, or more than 1,000 rows, needs --yes. With --out the result is
stored after each round as sweep.json.

` + specSyntax,
		Example: `  marketsim sweep --strategy watch,fine,lua --axis clients=1,2,4..32 --out results/clients
  marketsim sweep --strategy fine:queue,fine:set-px --axis clients=1,2,4..64 --hot 1
  marketsim sweep --strategy watch,fine --axis hold=0,1ms,10ms --axis clients=1,5,25 --out hold --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return p.measure(cmd.Context(), config)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *sweepFlags) add(cmd *cobra.Command) {
	// Short rows, because there are many of them.
	f.sessionFlags.add(cmd, 2*time.Second, 500*time.Millisecond, fewestSwept)
	f.out.files = sweepFiles()
	flags := cmd.Flags()
	flags.Lookup("out").Usage = "`folder` for sweep.json, report.txt, report.md and rows.csv"
	trials := flags.Lookup("trials")
	trials.Usage = fmt.Sprintf("rounds, a multiple of 3 from 6 to %d (default %d, or as many as intervals of all pairs take)",
		compare.MaxRounds, fewestSwept)
	trials.DefValue = "0" // so that it is not said twice
	flags.StringSliceVar(&f.strategies, "strategy", nil, "strategies to measure, separated by commas")
	flags.StringArrayVar(&f.axes, "axis", nil, "`NAME=VALUES` to measure them at; may be given twice")
	flags.IntVar(&f.clients, "clients", 5, "sellers, and as many buyers; of a market with hot items, buyers alone")
	f.workload.add(cmd)
	flags.StringVar(&f.margin, "margin", "5%", "ratios so near to 1 are no difference")
	flags.BoolVar(&f.yes, "yes", false, "measure even if it takes more than an hour or more than 1,000 rows")
	f.locks.add(cmd)
	completeSpecs(cmd, "strategy", false)
	completeAxes(cmd)
}

// completeAxes offers the names of axes.
func completeAxes(cmd *cobra.Command) {
	var names []string
	for _, k := range axisKinds() {
		names = append(names, string(k.Name)+"=")
	}
	_ = cmd.RegisterFlagCompletionFunc("axis", cobra.FixedCompletions(names,
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// fewestSwept is how many rounds a sweep has at least, unless fewer are asked for.
const fewestSwept = 9

// sweepFiles are the files of a sweep's folder.
func sweepFiles() map[string]string {
	files := runFiles()
	delete(files, runFile)
	files[sweepFile] = report.JSON
	return files
}

// A sweepConfig is what a session sweeps. Nothing in it runs.
type sweepConfig struct {
	axes     []result.Axis
	clients  int
	workload result.Workload // what has one value
}

// config checks the flags.
func (f sweepFlags) config(given func(flag string) bool) (sessionConfig, error) {
	if len(f.axes) == 0 {
		return sessionConfig{}, usageError{errors.New("along which axis? give --axis, such as --axis clients=1,2,4..64")}
	}
	axes, err := parseAxes(f.axes)
	if err != nil {
		return sessionConfig{}, err
	}
	for _, axis := range axes {
		if given(string(axis.Name)) {
			return sessionConfig{}, usageError{fmt.Errorf("--%s and --axis %[1]s=... both say what %[1]s is: give one of them",
				axis.Name)}
		}
	}
	margin, err := parseMargin(f.margin)
	if err != nil {
		return sessionConfig{}, err
	}
	workload, err := f.workload.config(given)
	if err != nil {
		return sessionConfig{}, err
	}
	specs, err := f.specs()
	if err != nil {
		return sessionConfig{}, err
	}
	swept := &sweepConfig{axes: axes, clients: f.clients, workload: workload}
	rows, err := swept.rows(specs)
	if err == nil {
		err = checkWorkloads(rows)
	}
	if err != nil {
		return sessionConfig{}, err
	}
	pairs := compare.Pairs(len(specs), len(rows)/len(specs))
	if !given("trials") {
		f.trials = max(fewestSwept, (compare.Fewest(pairs)+2)/3*3)
	}
	c, err := f.sessionFlags.config(func(rounds int) error { return checkRounds(rounds, pairs) })
	if err != nil {
		return sessionConfig{}, err
	}
	c.specs, c.sweep, c.margin = rows, swept, &margin
	if c.locks, err = f.locks.config(rows); err != nil {
		return sessionConfig{}, err
	}
	return c, c.checkLength(f.yes)
}

// specs are the strategies, each once.
func (f sweepFlags) specs() ([]strategies.Spec, error) {
	if len(f.strategies) == 0 {
		return nil, usageError{fmt.Errorf("which strategies? give --strategy with one or more of %s", strings.Join(names(), ", "))}
	}
	var specs []strategies.Spec
	for _, text := range f.strategies {
		spec, err := catalogue.Full().Parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(specs, func(s strategies.Spec) bool { return s.String() == spec.String() }) {
			return nil, usageError{fmt.Errorf("%s is asked for twice", spec)}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// manifested is the sweep as the result's configuration has it.
func (s sweepConfig) manifested(c result.Config) result.Config {
	c.Axes, c.Clients, c.Workload = s.axes, s.clients, s.workload
	for _, axis := range s.axes {
		if axis.Name == result.Clients {
			c.Clients = 0
		}
	}
	return c
}

// rows are the rows of a round: each strategy at each point.
func (s sweepConfig) rows(specs []strategies.Spec) ([]rowSpec, error) {
	points := 1
	for _, axis := range s.axes {
		points *= len(axis.Values)
	}
	if points > result.MaxSweepPoints {
		return nil, usageError{fmt.Errorf("these are %d points, and a sweep has at most %d: give fewer values", points,
			result.MaxSweepPoints)}
	}
	var rows []rowSpec
	for _, p := range s.manifested(result.Config{}).Points() {
		if workers := p.Mix.Sellers + p.Mix.Buyers; p.Mix.Buyers < 1 || workers > bench.MaxWorkers {
			return nil, usageError{fmt.Errorf("%s are %d workers, and a row has 1 to %d: sellers and buyers each count, but where "+
				"items are hot only buyers", result.Clients.Say(float64(p.Mix.Buyers)), workers, bench.MaxWorkers)}
		}
		for _, spec := range specs {
			rows = append(rows, rowSpec{spec: spec, mix: p.Mix, workload: p.Workload})
		}
	}
	return rows, nil
}

// What a sweep may take without --yes, and what sweep.json holds.
const (
	longSweep  = time.Hour
	manyRows   = 1_000
	storedRows = 40_000 // of about 4 KB; result.MaxBytes bounds the file
)

// checkLength refuses a sweep that takes long, unless the user has said yes.
func (c sessionConfig) checkLength(yes bool) error {
	rows := len(c.specs) * c.trials
	all := time.Duration(rows) * (c.base.Warmup + c.base.Duration)
	switch {
	case rows > storedRows:
		return usageError{fmt.Errorf("these are %d rows, and sweep.json holds at most %d: give fewer values, strategies or --trials",
			rows, storedRows)}
	case !yes && (rows > manyRows || all > longSweep):
		return usageError{fmt.Errorf("this sweep has %s: give --yes to measure it, or fewer values, strategies or --trials, or a "+
			"shorter --duration", c.ahead())}
	}
	return nil
}

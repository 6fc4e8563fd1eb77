package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	resume           string
}

func newSweep(p *program) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep --strategy SPEC[,SPEC...] --axis NAME=VALUES [--axis NAME=VALUES] | --resume DIR",
		Short: "Measure strategies along one or two axes: which is best where, and where one passes another",
		Long: `Measure strategies at each point of one or two axes, in the rounds of compare: in each round every strategy is measured
once at every point, in a new order. Ratios are made inside a round, and all intervals hold at once with 95%. It then says
which strategy is the fastest at each point, where along an axis one passes another and where that is not decided, what
the worst choice costs, and fits the universal scalability law along six or more numbers of clients.

` + axisSyntax + `

What is not an axis has one value: --clients, --hot, --hold, --rtt.

It says beforehand how long it will take. More than an hour, or more than 1,000 rows, needs --yes. With --out the result is
stored after each round as sweep.json, and --resume goes on where it was interrupted, with everything as it began. A round
that was cut short is measured anew, so that its rows are still near each other. What has another CPU, server, version or
setting than the first part is refused: a median over both would be true of neither.

` + specSyntax,
		Example: `  marketsim sweep --strategy watch,fine,lua --axis clients=1,2,4..32 --out results/clients
  marketsim sweep --strategy fine:queue,fine:set-px --axis clients=1,2,4..64 --hot 1
  marketsim sweep --strategy watch,fine --axis hold=0,1ms,10ms --axis clients=1,5,25 --out hold --yes
  marketsim sweep --resume hold`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.resume != "" {
				return f.goOn(p, cmd)
			}
			config, err := f.config(cmd.Flags())
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
	f.sessionFlags.add(cmd, 2*time.Second, 500*time.Millisecond, 3*time.Second, fewestSwept)
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
	flags.StringVar(&f.resume, "resume", "", "`folder` with the sweep.json of a sweep that was interrupted: go on with it")
	f.locks.add(cmd)
	completeSpecs(cmd, "strategy", false)
	completeAxes(cmd)
	_ = cmd.MarkFlagDirname("resume")
}

// completeAxes offers the names of axes.
func completeAxes(cmd *cobra.Command) {
	var names []string
	for _, k := range axisKinds() {
		names = append(names, string(k.name)+"=")
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
	dir      string          // where it is stored, or empty
	again    string          // the flags, if any, with which it is gone on
	earlier  *result.Run     // its complete rounds, that were measured before; nil: this is the beginning
}

// config checks the flags.
func (f sweepFlags) config(flags *pflag.FlagSet) (sessionConfig, error) {
	given := flags.Changed
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
	swept := &sweepConfig{axes: axes, clients: f.clients, workload: workload, dir: f.out.dir, again: f.again(flags)}
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

// specs are the strategies, each once: a sweep is gone on with by their names.
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

// again are the flags of this command line that a resumed sweep needs: where the servers of locks are, and the server's
// kind. The rest is stored, and the market's server is for serverConfig to name.
func (f sweepFlags) again(flags *pflag.FlagSet) string {
	var words []string
	flags.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "redlock", "zookeeper", "etcd":
			value := strings.Trim(flag.Value.String(), "[]")
			words = append(words, "--"+flag.Name, quote(value))
		}
	})
	return strings.Join(words, " ")
}

// onward is the command that goes on with a sweep, to be pasted; empty if nothing of it is stored.
func (c sessionConfig) onward() string {
	if c.sweep == nil || c.sweep.dir == "" {
		return ""
	}
	command := "marketsim sweep --resume " + quote(c.sweep.dir)
	if c.server.again != "" {
		command = strings.Replace(c.server.again, "marketsim clean --prefix %s", command, 1)
	}
	if c.sweep.again != "" {
		command += " " + c.sweep.again
	}
	return command
}

// goOn measures what is missing of a stored sweep.
func (f sweepFlags) goOn(p *program, cmd *cobra.Command) error {
	if err := onlyResumed(cmd.Flags()); err != nil {
		return err
	}
	path := filepath.Join(f.resume, sweepFile)
	if !exists(path) {
		return usageError{fmt.Errorf("--resume: %s holds no %s", f.resume, sweepFile)}
	}
	earlier, err := readRun(path)
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	if len(earlier.Manifest.Config.Axes) == 0 || earlier.Planned() < 6 || earlier.Manifest.Config.Margin == nil {
		return usageError{fmt.Errorf("--resume: %s is no sweep", path)}
	}
	if len(earlier.Rounds()) == earlier.Planned() {
		fmt.Fprintf(p.stderr, "%s is complete: all %s are there\n", path, english.Plural(earlier.Planned(), "round", ""))
		return f.out.show(p.stdout, p.stderr, report.Run(earlier))
	}
	config, err := f.resumed(earlier, cmd.Flags())
	if err != nil {
		return err
	}
	return p.measure(cmd.Context(), config)
}

// onlyResumed refuses flags that a sweep has stored.
func onlyResumed(flags *pflag.FlagSet) (err error) {
	may := []string{
		"resume", "redis", "password-file", "cacert", "cert", "key", "sni", "backend", "redlock", "zookeeper", "etcd", "json",
		"format",
	}
	flags.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(may, flag.Name) && err == nil {
			err = usageError{fmt.Errorf("--%s does not go with --resume: a sweep goes on as it began", flag.Name)}
		}
	})
	return err
}

// resumed is the session that goes on with a sweep.
func (f sweepFlags) resumed(earlier *result.Run, flags *pflag.FlagSet) (sessionConfig, error) {
	was := earlier.Manifest.Config
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	f.duration, f.warmup, f.most = seconds(was.DurationSeconds), seconds(was.WarmupSeconds), seconds(was.WarmupMaxSeconds)
	f.trials, f.seed, f.strategies = was.Trials, earlier.Manifest.Seed, was.Strategies
	if !strings.HasPrefix(was.Prefix, drawnPrefix) {
		f.prefix = was.Prefix
	}
	if url, _ := f.server.source(); url == "" && f.server.choice == "" && slices.Contains(private(), earlier.Manifest.Backend) {
		f.server.choice = earlier.Manifest.Backend
	}
	specs, err := f.specs()
	if err != nil {
		return sessionConfig{}, err
	}
	swept := &sweepConfig{
		axes: was.Axes, clients: was.Clients, workload: was.Workload, dir: f.resume, again: f.again(flags), earlier: earlier,
	}
	rows, err := swept.rows(specs)
	if err != nil {
		return sessionConfig{}, err
	}
	c, err := f.sessionFlags.config(func(int) error { return nil })
	if err != nil {
		return sessionConfig{}, err
	}
	c.specs, c.sweep, c.margin = rows, swept, was.Margin
	c.base.Funds, c.base.Wallets = was.Funds, was.Wallets
	c.out.dir, c.out.force = f.resume, true
	c.locks, err = f.locks.config(rows)
	return c, err
}

// measuredBefore reports whether a round is there already.
func (c sessionConfig) measuredBefore(round int) bool {
	if c.sweep == nil || c.sweep.earlier == nil {
		return false
	}
	return slices.ContainsFunc(c.sweep.earlier.Rounds(), func(rows []result.Row) bool { return rows[0].Trial == round })
}

// roundsLeft is how many rounds are to be measured.
func (c sessionConfig) roundsLeft() int {
	left := 0
	for round := 1; round <= max(1, c.trials); round++ {
		if !c.measuredBefore(round) {
			left++
		}
	}
	return left
}

// takeUp begins the result with the rounds that were measured before.
func (s *session) takeUp() {
	if s.config.sweep == nil || s.config.sweep.earlier == nil {
		return
	}
	earlier := s.config.sweep.earlier
	for _, rows := range earlier.Rounds() {
		s.result.Rows = append(s.result.Rows, rows...)
	}
	if cut := len(earlier.Rows) - len(s.result.Rows); cut > 0 {
		fmt.Fprintf(s.stderr, "the round that was cut short after %s is measured anew\n", english.Plural(cut, "row", ""))
	}
}

// sameMachine refuses to go on with a sweep where something is not as it was in its first part, and otherwise goes on
// with the manifest of that.
func (s *session) sameMachine() error {
	if s.config.sweep == nil || s.config.sweep.earlier == nil {
		return nil
	}
	earlier := s.config.sweep.earlier.Manifest
	var changed []string
	for _, d := range compare.Differences(earlier, s.result.Manifest) {
		changed = append(changed, fmt.Sprintf("%s was %s and is %s", d.What, known(d.Old), known(d.New)))
	}
	if len(changed) > 0 {
		return usageError{fmt.Errorf("--resume: the sweep in %s began elsewhere: %s. Medians over both parts would be true of neither: "+
			"go on where it began, or measure a new sweep", s.config.sweep.dir, strings.Join(changed, "; "))}
	}
	fmt.Fprintln(s.stderr, "machine, server and settings are those of the first part")
	s.result.Manifest = earlier
	return nil
}

// known is a setting, or that it is not known.
func known(text string) string {
	if strings.TrimSpace(text) == "" {
		return "unknown"
	}
	return text
}

// tellOnward says how an unfinished sweep is gone on with.
func (s *session) tellOnward(status result.Status) {
	if s.config.sweep == nil || status == result.Complete {
		return
	}
	if command := s.config.onward(); command != "" && exists(filepath.Join(s.config.sweep.dir, sweepFile)) {
		fmt.Fprintf(s.stderr, "go on with: %s\n", command)
	} else if command == "" {
		fmt.Fprintln(s.stderr, "nothing of it is stored, so it cannot be gone on with: give --out next time")
	}
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/load"
	protocol "github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// Prefixes that are drawn: in braces, of a run with several markets without, because each of
// these has its own. No other program has such names.
const (
	drawnPrefix        = "marketsim:{%08x}:"
	drawnPrefixSeveral = "marketsim:%08x:"
)

var drawnPrefixes = regexp.MustCompile(`^marketsim:(\{|[0-9a-f]{8}:)`)

// rowFlags are the flags of the commands that measure rows. Each command adds
// the ones that it has.
type rowFlags struct {
	strategies, mixes, rates []string
	least                    int      // how many strategies the command takes at least
	exec                     []string // strategies that are programs, NAME=COMMAND
	scripts                  scriptFlags
	scriptTexts              []stored.Script
	catalogue                strategies.Catalogue
	load                     result.Load
	hold, rtt                time.Duration
	arrivals                 string // of orders at a rate

	options  load.Options
	trials   int
	margin   string   // not empty: the command compares
	metrics  []string // by which it does; none: purchases/s
	verdict  verdict
	sloFails bool // a missed SLO is a failure

	axes       []runs.Axis // of a sweep
	reproduces []string    // tables of the book

	server  serverFlags
	several bool // the command takes several servers
	prefix  string
	out     output
}

func (f *rowFlags) addStrategy(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.strategies, "strategy", nil,
		"more `SPEC`s to measure, separated by commas")
	_ = flags.MarkHidden("strategy") // it says nothing that the arguments do not, and help is long
}

// addLoad adds the flags of a Load, except those of an open loop, and the one
// for programs that buy.
func (f *rowFlags) addLoad(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.exec, "exec", nil,
		"`NAME=COMMAND` makes exec:NAME of a program that buys (see judge --help)")
	f.scripts.add(flags)
	flags.StringSliceVar(&f.mixes, "mix", []string{"5x5"}, "`SELLERSxBUYERS`, separated by commas")
	flags.IntVar(&f.load.Wallets, "wallets", 0, "all buyers spend from this many `accounts` (default one each)")
	flags.Int64Var(&f.load.Funds, "funds", 0, "each account's `coins` at the start (default more than it needs)")
	flags.IntVar(&f.load.Hot, "hot", 0, "only this many `items` circulate: buyers list what they bought (mix 0x5)")
	flags.IntVar(&f.load.Stock, "stock", 0, "`items` listed before a row begins (default about 64 for each buyer)")
	flags.DurationVar(&f.hold, "hold", 0, "`time` of other work between reads and write, locks held")
	flags.DurationVar(&f.rtt, "rtt", 0, "`time` by which each reply to a worker is delayed, as by a network")
	flags.IntVar(&f.load.Markets, "markets", 0, "`number` of markets that share the workers, on a cluster's masters")
}

// addMeasuring adds the flags of rounds and rows. 0 trials: the command compares,
// with as many as verdicts take.
func (f *rowFlags) addMeasuring(flags *pflag.FlagSet, duration, warmup time.Duration, trials int) {
	flags.DurationVar(&f.options.Duration, "duration", duration, "measured `time` of a row")
	flags.DurationVar(&f.options.Warmup, "warmup", warmup, "`time` before that, not counted")
	usage := "`rounds`, 1 or at least 6, each in a new order"
	if trials == 0 {
		usage = "`rounds`, as many as all intervals take (default 9 or more)"
		flags.StringVar(&f.margin, "margin", "5%", "`ratios` within this of 1 are no difference")
	}
	flags.IntVar(&f.trials, "trials", trials, usage)
	flags.Uint64Var(&f.options.Seed, "seed", load.DefaultSeed, "`number` from which prices and orders are drawn")
}

// measures has cmd measure the points that pointsOf makes of the canonical names of strategies.
// pointsOf may also set fields of f that f.plan reads afterwards, such as axes.
// load.Options.Validate says which values exclude each other.
func (f *rowFlags) measures(
	p *program, cmd *cobra.Command, pointsOf func(cmd *cobra.Command, names []string) ([]result.Point, error),
) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Scripts come first: the strategies that --script makes must be known by their names.
		specs := slices.Concat(words(args), f.strategies)
		if err := f.know(p, specs); err != nil {
			return err
		}
		if len(specs) < f.least {
			return usagef("which strategies? give %s or more, as in '%s watch fine'; 'marketsim list' names them",
				english.Plural(f.least, "SPEC", ""), cmd.CommandPath())
		}
		names, err := subjects(f.catalogue, specs)
		if err != nil {
			return err
		}

		points, err := pointsOf(cmd, names)
		if err != nil {
			return err
		}
		plan, err := f.plan(cmd, points)
		if err != nil {
			return err
		}
		return p.measure(cmd.Context(), plan)
	}

	group(cmd, "Server", func(flags *pflag.FlagSet) {
		f.server.addPrivate(flags)
		if f.several {
			f.server.addSeveral(flags)
		}
		flags.StringVar(&f.prefix, "prefix", "", "`prefix` of every key, ending in \":\" (default a random one)")
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.addFolder(flags, runFormats, runFile)
		flags.BoolVar(&p.quiet, "quiet", false, "print results, warnings and errors only")
	})
	return cmd
}

// A plan is what is to be measured, how and where, and what becomes of it.
// Nothing in it runs.
type plan struct {
	config   runs.Config                // the points of a round, and how many rounds there are
	scripts  []stored.Script            // of the user's, that are strategies
	specs    map[string]strategies.Spec // of the points, by result.Point.Spec
	options  load.Options               // the same for all rows; what is started is added later
	server   serverPlan
	out      output
	drawn    bool                   // the prefix was drawn at random: nobody else uses it
	changed  func(flag string) bool // whether a flag was given
	sloFails bool
	strict   bool // what is not decided is a failure
}

// know collects what specs may name, which includes scripts of --script and programs of --exec.
func (f *rowFlags) know(p *program, specs []string) (err error) {
	f.catalogue, f.scriptTexts, err = f.scripts.known(specs)
	if err != nil {
		return err
	}

	for _, text := range f.exec {
		name, words, _ := strings.Cut(text, "=")
		command := strings.Fields(words)
		// It notes the secrets of the command, which runs as it was typed: before the errors below,
		// one of which shows it.
		p.passwords.addIn(command)
		_, unknown := f.catalogue.Parse("exec:" + name) // nil: the name is taken

		if badName(name) || len(command) == 0 || unknown == nil {
			return usagef("--exec %q: want NAME=COMMAND, such as py='python3 buy.py', each NAME once", text)
		}
		if _, err := exec.LookPath(command[0]); err != nil {
			return usagef("--exec %s: %w: is it installed?", name, err)
		}
		f.catalogue.Strategies = append(f.catalogue.Strategies, protocol.Strategy("exec:"+name, command))
	}
	return nil
}

// subjects returns the canonical names of strategies. A repeated one, to be compared with
// itself, gets a number behind "#", where Point.Spec and Point.Subject of package result look
// for it. newCompare writes "#2" itself.
func subjects(known strategies.Catalogue, texts []string) (names []string, err error) {
	uses := map[string]int{}
	for _, text := range texts {
		spec, err := known.Parse(text)
		if err != nil {
			return nil, err
		}

		name := spec.String()
		uses[name]++
		if uses[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, uses[name])
		}
		names = append(names, name)
	}
	return names, nil
}

// points are those of all mixes, servers, strategies and rates.
func (f *rowFlags) points(cmd *cobra.Command, names []string) (all []result.Point, err error) {
	mixes, err := f.parseMixes(cmd)
	if err != nil {
		return nil, err
	}
	rates, err := f.parseRates()
	if err != nil {
		return nil, err
	}
	arrivals, err := f.parseArrivals(cmd)
	if err != nil {
		return nil, err
	}

	servers, err := f.server.severalServers()
	if err != nil {
		return nil, err
	}

	// In this order tables have together what is compared: strategies under one mix, on one server.
	// The first strategy on the first server stands first: package compare holds others to it.
	for _, mix := range mixes {
		for _, server := range (serverPlan{several: servers}).markets() {
			for _, name := range names {
				for _, rate := range rates {
					load := f.loadOf()
					load.Rate = rate
					load.Arrivals = arrivals
					all = append(all, result.Point{Strategy: name, Server: server.name, Mix: mix, Load: load})
				}
			}
		}
	}
	return all, nil
}

func (f *rowFlags) loadOf() result.Load {
	load := f.load
	load.HoldMS = inMS(f.hold)
	load.RTTMS = inMS(f.rtt)
	if load.Markets == 1 {
		load.Markets = 0 // as a Load spells that there is one
	}
	return load
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// parseMixes reads --mix. With hot items, which only buyers trade, the default
// has no sellers.
func (f *rowFlags) parseMixes(cmd *cobra.Command) (mixes []result.Mix, err error) {
	texts := f.mixes
	if f.load.Hot > 0 && !cmd.Flags().Changed("mix") {
		texts = []string{"0x5"}
	}
	for _, text := range texts {
		mix, err := result.ParseMix(text)
		if err != nil {
			return nil, usagef("--mix: %w", err)
		}
		mixes = append(mixes, mix)
	}
	return mixes, nil
}

// parseRates reads --rate. Without it the only rate is 0, of a closed loop.
func (f *rowFlags) parseRates() (rates []float64, err error) {
	if f.sloFails && f.options.SLO == 0 {
		return nil, usagef("--slo-fails: after which time is an order late? give --slo and --rate, too")
	}
	if len(f.rates) == 0 {
		return []float64{0}, nil
	}

	for _, text := range f.rates {
		rate, unit, err := humanize.ParseSI(text)
		if err != nil || unit != "" || !(rate > 0) {
			return nil, usagef("--rate %q: want orders a second, such as 500, 2.5k or 1M; "+
				"without --rate the buyers set the rate", text)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// plan is what the flags say of some points. What they say wrong is found here, before
// anything runs.
func (f *rowFlags) plan(cmd *cobra.Command, points []result.Point) (*plan, error) {
	config := runs.Config{Points: points, Axes: f.axes, Reproduces: f.reproduces}

	// Without a hash tag, several markets get slots of several masters.
	form := drawnPrefix
	if mostMarkets(points) > 1 {
		form = drawnPrefixSeveral
	}
	keys, err := market.NewKeys(cmp.Or(f.prefix, fmt.Sprintf(form, rand.Uint32())))
	if err == nil {
		err = f.judges(cmd, &config) // sets f.trials, too, which is read below
	}
	if err != nil {
		return nil, err
	}

	server, err := f.server.plan()
	if err != nil {
		return nil, err
	}

	specs := map[string]strategies.Spec{}
	for _, point := range points {
		specs[point.Spec()], err = f.catalogue.Parse(point.Spec())
		if err != nil {
			return nil, err
		}
	}

	config.Trials = f.trials
	config.DurationSeconds = f.options.Duration.Seconds()
	config.WarmupSeconds = f.options.Warmup.Seconds()
	config.SLOMS = inMS(f.options.SLO)
	config.Prefix = keys.Prefix()
	p := &plan{
		config:   config,
		scripts:  f.scriptTexts,
		specs:    specs,
		options:  f.options,
		server:   server,
		out:      f.out,
		drawn:    f.prefix == "",
		changed:  cmd.Flags().Changed,
		sloFails: f.sloFails,
		strict:   f.verdict.strict,
	}
	p.options.Keys = keys
	p.options.Private = server.target == nil

	if err := p.checkTrials(); err != nil {
		return nil, err
	}
	return p, p.checkPoints()
}

// mostMarkets is how many markets the point with the most of them has.
func mostMarkets(points []result.Point) int {
	most := 1
	for _, point := range points {
		most = max(most, point.Markets)
	}
	return most
}

// checkTrials refuses numbers of rounds that tell no more than one, and a market that
// is kept where there are several, or where its server ends with the run.
func (p *plan) checkTrials() error {
	trials := p.config.Trials
	fewest := compare.Fewest(1)
	if trials != 1 && (trials < fewest || trials > runs.MostTrials) {
		return usagef("--trials %d: give 1, or %d to %d: fewer rounds have no 95%% interval", trials, fewest, runs.MostTrials)
	}
	if p.options.Keep && (len(p.config.Points)*trials != 1 || p.options.Private) {
		return usagef("--keep leaves one market on a server that outlives the run: " +
			"give --redis URL, and one strategy, one mix and one trial")
	}
	return nil
}

// checkPoints refuses a point that is there twice, or whose values package load refuses: in the
// message stands the flag that was given, or else the point.
func (p *plan) checkPoints() error {
	for i, point := range p.config.Points {
		if slices.Contains(p.config.Points[:i], point) {
			return usagef("%s is asked for twice: to measure each row several times, give --trials 6 or more", point.Name())
		}

		// Before so large a slice of Sites is made below.
		if point.Markets > load.MaxWorkers {
			return usagef("--markets: %d: each needs workers, of which there are %d at most", point.Markets, load.MaxWorkers)
		}

		// Places for the markets are known once there are servers; how many there are is checked now.
		o := p.options
		o.Subject = p.specs[point.Spec()]
		if point.Markets > 1 {
			o.Sites = make([]load.Site, point.Markets)
		}
		err := o.Validate(point)
		if wrong, is := errors.AsType[*load.PointError](err); is {
			about := point.Name() + ": " + wrong.Field
			if p.changed(wrong.Field) {
				about = "--" + wrong.Field
			}
			err = usagef("%s: %s", about, wrong.Why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ahead says how many rows there are, and how long their loads take, without stocking,
// auditing and removing markets.
func (p *plan) ahead() string {
	each := p.options.Warmup + p.options.Duration
	n := len(p.config.Points)
	what := english.Plural(n, "row", "")
	if p.config.Trials > 1 {
		what = fmt.Sprintf("%d rounds of %s", p.config.Trials, what)
	}
	return fmt.Sprintf("%s of %s, at least %s in all", what, each, time.Duration(p.config.Trials*n)*each)
}

// In the name of a folder, or of a program of --exec.
var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9.,=+_-]+`)

// historyOf is the folder for the history of a row; empty: none is recorded. point is an index
// into config.Points. The number in front keeps points apart whose names become the same here.
func (p *plan) historyOf(point, round int) string {
	dir := p.options.History
	if dir != "" && p.config.Trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("round-%02d", round))
	}
	if dir == "" || len(p.config.Points) == 1 {
		return dir
	}
	name := strings.ReplaceAll(p.config.Points[point].Name(), " ", "-")
	return filepath.Join(dir, fmt.Sprintf("%02d-%s", point+1, unsafeInNames.ReplaceAllString(name, "_")))
}

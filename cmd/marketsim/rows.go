package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
)

// The commands that measure rows differ in which of the row's flags they have, and in
// which points they make of them.

func newRun(p *program) *cobra.Command {
	f := rowFlags{least: 1, several: true}
	cmd := &cobra.Command{Use: "run SPEC... [--mix 5x5[,1x1...]]"}
	group(cmd, "Load", func(flags *pflag.FlagSet) {
		f.addStrategy(flags)
		f.addLoad(flags)
		f.addOpenLoop(flags)
		flags.BoolVar(&f.sloFails, "slo-fails", false, "exit with 3 if more than 1% of the orders at a --rate are late")
	})

	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		f.addMeasuring(flags, load.DefaultDuration, load.DefaultWarmup, 1)
		flags.StringVar(&f.options.History, "history", "",
			"`folder` into which every operation is recorded, for 'marketsim check'")
		flags.BoolVar(&f.options.Keep, "keep", false, "leave the market on the server")
		f.addThresholds(flags)
	})
	return f.measures(p, cmd, f.points)
}

func newCompare(p *program) *cobra.Command {
	f := rowFlags{least: 2, several: true}
	cmd := &cobra.Command{Use: "compare SPEC SPEC..."}

	group(cmd, "Load", func(flags *pflag.FlagSet) {
		f.addLoad(flags)
		f.addOpenLoop(flags)
	})
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		// Two strategies take less than three minutes.
		f.addMeasuring(flags, 5*time.Second, load.DefaultWarmup, 0)
		f.addMetrics(flags)
		f.addThresholds(flags)
	})

	return f.measures(p, cmd, func(cmd *cobra.Command, names []string) ([]result.Point, error) {
		// A control: compare.Of decides nothing by a metric in which the first strategy differs
		// from itself.
		if again := names[0] + "#2"; !slices.Contains(names, again) {
			names = append(names, again)
		}
		return f.points(cmd, names)
	})
}

func newSweep(p *program) *cobra.Command {
	// Neither several servers nor an open loop: the points of base have no server and no rate.
	f := rowFlags{least: 1}
	var texts []string
	cmd := &cobra.Command{Use: "sweep SPEC... --axis NAME=VALUES [--axis NAME=VALUES]"}
	group(cmd, "Load", func(flags *pflag.FlagSet) {
		f.addStrategy(flags)
		flags.StringArrayVar(&texts, "axis", nil, "`NAME=VALUES` to measure them at; may be given twice")
		f.addLoad(flags)
	})
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		// Short rows, because there are many of them.
		f.addMeasuring(flags, 2*time.Second, 500*time.Millisecond, 0)
	})
	_ = cmd.MarkFlagRequired("axis") // an error means that there is no such flag

	return f.measures(p, cmd, func(cmd *cobra.Command, names []string) (_ []result.Point, err error) {
		f.axes, err = runs.ParseAxes(texts) // which f.base reads, and the plan
		if err != nil {
			return nil, usagef("--axis: %w", err)
		}
		base, err := f.base(cmd)
		if err != nil {
			return nil, err
		}
		return runs.Expand(base, names, f.axes), nil
	})
}

// base is the point whose values the axes change. A flag must not set what an axis sets.
func (f *rowFlags) base(cmd *cobra.Command) (base result.Point, err error) {
	for _, axis := range f.axes {
		// Each axis but clients has the name of the flag that sets the same (see addLoad).
		flag := string(axis.Name)
		if axis.Name == runs.AxisClients {
			flag = "mix"
		}
		if cmd.Flags().Changed(flag) {
			return base, usagef("--%s and --axis %s=... set the same: give one of them", flag, axis.Name)
		}
	}

	mixes, err := f.parseMixes(cmd)
	if err != nil {
		return base, err
	}
	if len(mixes) > 1 {
		return base, usagef("--mix: a sweep takes one mix, or the axis clients")
	}
	return result.Point{Mix: mixes[0], Load: f.loadOf()}, nil
}

const (
	// The defaults of reproduce take two minutes. A verdict needs six rounds at least in
	// which a claim's rows are steady.
	reproduceDuration = time.Second
	reproduceWarmup   = 200 * time.Millisecond
	reproduceTrials   = 9
	// Those on the embedded server take 40 seconds on a busy machine, seeding
	// and audits included.
	embeddedDuration = 800 * time.Millisecond
	embeddedTrials   = 3
)

func newReproduce(p *program) *cobra.Command {
	// Without --server and the flags of a Load: package reference judges claims by rows that have
	// neither a server's name nor another load than that of published.
	f := rowFlags{reproduces: reference.TableNames()}
	var as string
	cmd := &cobra.Command{Use: "reproduce", Args: noArguments}
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		flags.StringVar(&as, "as", reference.Book,
			"lock as this `source` does, and compare with its numbers: "+reference.Book+" or "+reference.Jedis)
		f.addMeasuring(flags, reproduceDuration, reproduceWarmup, reproduceTrials)
	})

	return f.measures(p, cmd, func(*cobra.Command, []string) ([]result.Point, error) {
		switch as {
		case reference.Book:
		case reference.Jedis:
			f.reproduces = []string{reference.Jedis}
		default:
			return nil, usagef("--as %q: give %s or %s", as, reference.Book, reference.Jedis)
		}
		return published(as), nil
	})
}

// published are the rows of the book's tables as a source locks. They begin without
// listings, as the book's market does.
func published(source string) (points []result.Point) {
	for _, r := range reference.RowsOf(source) {
		mix := result.Mix{Sellers: r.Listers, Buyers: r.Buyers}
		points = append(points, result.Point{Strategy: r.Strategy, Mix: mix, Load: result.Load{Empty: true}})
	}
	return points
}

// shorten makes a reproduction on the embedded server, whose speed is not judged,
// as short as its flags allow.
func (p *plan) shorten() {
	if !p.changed("trials") {
		p.config.Trials = embeddedTrials
	}
	if !p.changed("duration") {
		p.options.Duration = embeddedDuration
		p.config.DurationSeconds = embeddedDuration.Seconds()
	}
}

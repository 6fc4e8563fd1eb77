package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wording"
)

// What is said of rows that were measured: by which metrics they are compared, and which
// thresholds they must meet.

// A verdict is what the flags of thresholds ask for.
type verdict struct {
	thresholds []string
	strict     bool // what is not decided is a failure
}

// addThresholds adds the flags of what rows must meet.
func (f *rowFlags) addThresholds(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.verdict.thresholds, "threshold", nil,
		"`condition` or exit with 3: 'p99<=5ms', 'purchases/s>=0.95*first'")
	flags.BoolVar(&f.verdict.strict, "strict", false, "exit with 1 if a --threshold is not decided")
}

// addMetrics adds the flag of what is compared.
func (f *rowFlags) addMetrics(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.metrics, "metric", []string{"purchases/s"}, "`names` of what is compared, by commas")
}

// addOpenLoop adds the flags of orders that fall due at a rate.
func (f *rowFlags) addOpenLoop(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.rates, "rate", nil, "`orders` a second that fall due, buyer free or not, as in 500,2.5k")
	flags.StringVar(&f.arrivals, "arrivals", poisson, "`gaps` of a --rate: poisson (random), constant")
	flags.DurationVar(&f.options.SLO, "slo", 0, "`time` after which an order at a --rate is late")
}

const poisson = "poisson" // arrivals that are those of a row which names none

// parseArrivals reads --arrivals.
func (f *rowFlags) parseArrivals(cmd *cobra.Command) (string, error) {
	switch {
	case !cmd.Flags().Changed("arrivals"):
		return "", nil
	case f.arrivals != poisson && f.arrivals != result.ConstantArrivals:
		return "", usagef("--arrivals: %s",
			wording.Unknown("kind of arrivals", f.arrivals, []string{poisson, result.ConstantArrivals}))
	case len(f.rates) == 0:
		return "", usagef("--arrivals is of orders at a rate: give --rate, too")
	case f.arrivals == poisson:
		return "", nil
	}
	return f.arrivals, nil
}

// judges sets what is compared, what rows must meet and, by default, the rounds that this
// takes. It refuses fewer.
func (f *rowFlags) judges(cmd *cobra.Command, config *runs.Config) error {
	if err := f.parseThresholds(config); err != nil {
		return err
	}
	if f.margin != "" {
		if err := f.compares(cmd, config); err != nil {
			return err
		}
	}
	return f.takesRounds(cmd, config)
}

// parseThresholds reads --threshold.
func (f *rowFlags) parseThresholds(config *runs.Config) error {
	if f.verdict.strict && len(f.verdict.thresholds) == 0 {
		return usagef("--strict: what must be decided? give --threshold, too, such as 'p99<=5ms'")
	}

	for _, text := range f.verdict.thresholds {
		t, err := runs.ParseThreshold(text)
		if err != nil {
			return usagef("--threshold %q: %w", text, err)
		}
		if slices.Contains(config.Thresholds, t) {
			return usagef("--threshold %q is there twice: leave one out", text)
		}
		if t.Judged().Table == runs.OpenLoop && len(f.rates) == 0 {
			return usagef("--threshold %q is about orders at a rate: give --rate, too", text)
		}

		// One such as '>=0.95*first' holds the others to the first strategy: there must be others.
		config.Thresholds = append(config.Thresholds, t)
		alone := runs.Config{Points: config.Points, Thresholds: []runs.Threshold{t}}
		if compare.Checks(alone) == 0 {
			return usagef("--threshold %q: which strategy is held to the first? give two SPECs or more", text)
		}
	}
	return nil
}

// compares sets the margin and the metrics.
func (f *rowFlags) compares(cmd *cobra.Command, config *runs.Config) error {
	number, isPercent := strings.CutSuffix(f.margin, "%")
	percent, err := strconv.ParseFloat(number, 64)
	inRange := percent >= 0 && percent < 100 // NaN is not
	if err != nil || !isPercent || !inRange {
		return usagef("--margin %q: it takes a percentage below 100%%, such as 5%%", f.margin)
	}
	config.Margin = new(percent / 100)

	metrics, err := runs.ParseMetrics(f.metrics)
	if err != nil {
		return usagef("--metric: %w", err)
	}
	for _, m := range metrics {
		if cmd.Flags().Changed("metric") { // none in config: the default
			config.Metrics = append(config.Metrics, m.Name)
		}
		if m.Table == runs.OpenLoop && len(f.rates) == 0 {
			return usagef("--metric %s is of orders at a rate: give --rate, too", m.Short)
		}
	}
	return nil
}

// takesRounds sets the rounds that comparisons and thresholds take, or refuses fewer. It needs
// the fields of config that parseThresholds and compares set.
func (f *rowFlags) takesRounds(cmd *cobra.Command, config *runs.Config) error {
	checks := compare.Checks(*config)
	intervals := 0
	if config.Margin != nil {
		intervals = compare.Intervals(*config)
	}
	// Not of their sum: thresholds hold at once among themselves, and so do comparisons.
	fewest := compare.Fewest(max(checks, intervals))
	changed := cmd.Flags().Changed("trials")
	switch {
	case changed && (f.trials >= fewest || checks+intervals == 0):
		return nil
	case !changed && config.Margin != nil: // the command compares, though perhaps no two
		f.trials = max(9, fewest) // as many as package bench/compare measures
		return nil
	case !changed:
		if checks > 0 {
			f.trials = fewest
		}
		return nil
	case checks > intervals: // from here on too few were given
		return usagef("--trials %d: %s of thresholds and rows take %d rounds or more: give more, "+
			"or leave --trials out", f.trials, english.Plural(checks, "pair", ""), fewest)
	}

	metrics := len(config.Judged())
	what := english.Plural(intervals/metrics, "pair", "")
	ways := "give more, or fewer strategies, mixes or points"
	if metrics > 1 {
		what += " by " + english.Plural(metrics, "metric", "")
		ways = "give more, or fewer strategies, mixes, rates or metrics"
	}
	return usagef("--trials %d: verdicts on %s take %d rounds or more: %s", f.trials, what, fewest, ways)
}

// checkThresholds returns an error for the thresholds that are broken and, if strict, for
// those that are not decided, of which it warns else.
func (p *program) checkThresholds(run *runs.Run, strict bool) (broken, undecided error) {
	for _, c := range compare.CheckThresholds(run) {
		switch c.Standing {
		case compare.Broken:
			broken = errors.Join(broken, fmt.Errorf("%w: %s", errViolation, view.Check(c)))
		case compare.NotDecided:
			undecided = errors.Join(undecided, errors.New(view.Check(c)))
		}
	}
	if undecided == nil {
		return broken, nil
	}

	if strict {
		return broken, fmt.Errorf("%w\nmore rounds (--trials) or longer rows (--duration) decide more", undecided)
	}
	for line := range strings.Lines(undecided.Error()) {
		fmt.Fprintf(p.stderr, "warning: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return broken, nil
}

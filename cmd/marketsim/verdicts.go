package main

import (
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// What is said of rows that were measured: by which metrics they are compared.

// addMetrics adds the flag of what is compared.
func (f *rowFlags) addMetrics(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.metrics, "metric", []string{"purchases/s"}, "`names` of what is compared, separated by commas")
}

// addOpenLoop adds the flags of orders that fall due at a rate.
func (f *rowFlags) addOpenLoop(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.rates, "rate", nil, "`orders` a second that fall due, buyer free or not, as in 500,2.5k")
	flags.DurationVar(&f.options.SLO, "slo", 0, "`time` after which an order at a --rate is late")
}

// compares sets the margin, the metrics and, by default, the rounds. It refuses too few
// rounds for verdicts on all pairs.
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
		if cmd.Flags().Changed("metric") {
			config.Metrics = append(config.Metrics, m.Name)
		}
		if m.Table == runs.OpenLoop && len(f.rates) == 0 {
			return usagef("--metric %s is of orders at a rate: give --rate, too", m.Short)
		}
	}
	return f.takesRounds(cmd, config, len(metrics))
}

// takesRounds sets the rounds that comparisons by so many metrics take, or refuses fewer.
func (f *rowFlags) takesRounds(cmd *cobra.Command, config *runs.Config, metrics int) error {
	pairs := len(compare.Pairs(*config)) * len(config.Places())
	fewest := compare.Fewest(compare.Intervals(*config))
	if !cmd.Flags().Changed("trials") {
		f.trials = max(9, fewest)
		return nil
	}
	if f.trials >= fewest {
		return nil
	}

	what := english.Plural(pairs, "pair", "")
	ways := "give more, or fewer strategies, mixes or points"
	if metrics > 1 {
		what += " by " + english.Plural(metrics, "metric", "")
		ways = "give more, or fewer strategies, mixes, rates or metrics"
	}
	return usagef("--trials %d: verdicts on %s take %d rounds or more: %s", f.trials, what, fewest, ways)
}

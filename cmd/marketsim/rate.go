package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
)

// rateFlags are the flags of an open loop.
type rateFlags struct {
	rates    []string
	arrivals string
	slo      time.Duration
}

func (f *rateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.rates, "rate", nil,
		"purchases a second that are asked for whether or not a buyer is free, such as 500, 2.5k or 1k,2k,4k")
	flags.StringVar(&f.arrivals, "arrivals", string(bench.Poisson),
		"how orders at a --rate come: poisson, or constant with one gap between all")
	flags.DurationVar(&f.slo, "slo", 0, "what the 99th percentile of the latency at a --rate should stay under")
	complete(cmd, "arrivals", []string{string(bench.Poisson), string(bench.Constant)})
}

// rateConfig is how the loops of a session are open.
type rateConfig struct {
	rates    []float64 // purchases a second, each once; empty: the loops are closed
	arrivals bench.Arrivals
	slo      time.Duration // 0: none was given
}

// config checks the flags, of which some were given, for rows of the given length.
func (f rateFlags) config(given func(flag string) bool, duration time.Duration) (rateConfig, error) {
	if len(f.rates) == 0 {
		for _, flag := range []string{"arrivals", "slo"} {
			if given(flag) {
				return rateConfig{}, usageError{fmt.Errorf("--%s is about orders at a rate: give --rate, too", flag)}
			}
		}
		return rateConfig{}, nil
	}
	c := rateConfig{arrivals: bench.Arrivals(f.arrivals), slo: f.slo}
	switch {
	case c.arrivals != bench.Poisson && c.arrivals != bench.Constant:
		return c, usageError{fmt.Errorf("--arrivals %q: want %s or %s", quotable(f.arrivals), bench.Poisson, bench.Constant)}
	case given("slo") && f.slo <= 0:
		return c, usageError{fmt.Errorf("--slo %s: must be positive", f.slo)}
	}
	for _, text := range f.rates {
		rate, err := parseRate(text)
		switch {
		case err != nil:
			return c, err
		case duration > 0 && rate*duration.Seconds() < 1: // a duration of 0 is refused elsewhere
			return c, usageError{fmt.Errorf("--rate %s: less than one purchase in the %s of a row; give more --duration",
				text, duration)}
		case slices.Contains(c.rates, rate):
			return c, usageError{fmt.Errorf("--rate %s: the same rate twice", text)}
		}
		c.rates = append(c.rates, rate)
	}
	return c, nil
}

// writtenRate is how a rate is written.
var writtenRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kM]?)$`)

// parseRate reads a rate such as 500, 2.5k or 1M, in purchases a second.
func parseRate(text string) (float64, error) {
	parts := writtenRate.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, usageError{fmt.Errorf("--rate %q: want purchases a second, such as 500, 2.5k or 1M", quotable(text))}
	}
	rate, err := strconv.ParseFloat(parts[1], 64)
	rate *= map[string]float64{"": 1, "k": 1e3, "M": 1e6}[parts[2]]
	switch {
	case err != nil || math.IsInf(rate, 0) || rate > bench.MaxRate:
		return 0, usageError{fmt.Errorf("--rate %s: at most %d purchases a second, beyond which their times cannot be told "+
			"apart", text, bench.MaxRate)}
	case rate == 0:
		return 0, usageError{fmt.Errorf("--rate %s: must be more than 0; without --rate the buyers set the rate", text)}
	}
	return rate, nil
}

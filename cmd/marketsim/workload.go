package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

// The default mixes of a market whose sellers list new items, and of one whose items circulate.
const (
	defaultMix    = "5x5"
	defaultHotMix = "0x5"
)

// workloadFlags are the flags of what a market differs in from the book's.
type workloadFlags struct {
	hot       int
	hold, rtt time.Duration
}

func (f *workloadFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.hot, "hot", 0,
		"only so many `items` circulate: buyers list again what they bought, and the mix has no sellers (0x5)")
	flags.DurationVar(&f.hold, "hold", 0,
		"other work of each operation between its reads and its write, locks held (of a script: before it)")
	flags.DurationVar(&f.rtt, "rtt", 0, "delay of each reply to a worker, as by a network")
}

// config checks the flags, of which some were given.
func (f workloadFlags) config(given func(flag string) bool) (result.Workload, error) {
	switch {
	case given("hot") && (f.hot < 1 || f.hot > bench.MaxHot):
		return result.Workload{}, usageError{fmt.Errorf("--hot %d: want 1 to %d items", f.hot, bench.MaxHot)}
	case f.hold < 0 || f.hold > bench.MaxHold:
		return result.Workload{}, usageError{fmt.Errorf("--hold %s: want 0s to %s", f.hold, bench.MaxHold)}
	case f.rtt < 0 || f.rtt > bench.MaxRTT:
		return result.Workload{}, usageError{fmt.Errorf("--rtt %s: want 0s to %s", f.rtt, bench.MaxRTT)}
	}
	return result.Workload{Hot: f.hot, HoldMS: inMS(f.hold), RTTMS: inMS(f.rtt)}, nil
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// checkWorkloads refuses rows whose locks a delay of Redis's replies would leave out: beside the others they would look
// faster than they are.
func checkWorkloads(specs []rowSpec) error {
	for _, s := range specs {
		if kind, ok := s.spec.Lock(); ok && s.workload.RTTMS > 0 && !kind.Needs.InRedis() {
			return usageError{fmt.Errorf("--rtt delays replies of Redis, and the lock %s is kept in %s: it would look faster than it is",
				kind.Name, kind.Needs)}
		}
	}
	return nil
}

// parseMix reads a mix, which has no sellers where hot items circulate.
func parseMix(text string, hot bool) (result.Mix, error) {
	if hot {
		return bench.ParseHotMix(text)
	}
	mix, err := bench.ParseMix(text)
	if err != nil && strings.HasPrefix(text, "0x") {
		err = fmt.Errorf("%w; without sellers, items have to circulate: give --hot, too", err)
	}
	return mix, err
}

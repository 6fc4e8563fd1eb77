package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

// workloadFlags are the flags of what a market differs in from the book's.
type workloadFlags struct {
	hot, stock, markets int
	hold, rtt           time.Duration
}

func (f *workloadFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.hot, "hot", 0,
		"only so many `items` circulate: buyers list again what they bought, and the mix has no sellers (0x5)")
	flags.IntVar(&f.stock, "stock", 0, "so many `items` are listed before a row begins")
	flags.IntVar(&f.markets, "markets", 1,
		"so many markets, which share the workers; on a cluster they are spread over its masters")
	flags.DurationVar(&f.hold, "hold", 0,
		"other work of each operation between its reads and its write, locks held (of a script: before it)")
	flags.DurationVar(&f.rtt, "rtt", 0, "delay of each reply to a worker, as by a network")
}

// config checks the flags, of which some were given.
func (f workloadFlags) config(given func(flag string) bool) (result.Workload, error) {
	switch {
	case given("hot") && (f.hot < 1 || f.hot > bench.MaxHot):
		return result.Workload{}, usageError{fmt.Errorf("--hot %d: want 1 to %d items", f.hot, bench.MaxHot)}
	case f.stock < 0 || f.stock > bench.MaxStock:
		return result.Workload{}, usageError{fmt.Errorf("--stock %d: want 0 to %d items", f.stock, bench.MaxStock)}
	case f.markets < 1 || f.markets > bench.MaxMarkets:
		return result.Workload{}, usageError{fmt.Errorf("--markets %d: want 1 to %d", f.markets, bench.MaxMarkets)}
	case f.hold < 0 || f.hold > bench.MaxHold:
		return result.Workload{}, usageError{fmt.Errorf("--hold %s: want 0s to %s", f.hold, bench.MaxHold)}
	case f.rtt < 0 || f.rtt > bench.MaxRTT:
		return result.Workload{}, usageError{fmt.Errorf("--rtt %s: want 0s to %s", f.rtt, bench.MaxRTT)}
	}
	w := result.Workload{Hot: f.hot, Stock: f.stock, HoldMS: inMS(f.hold), RTTMS: inMS(f.rtt)}
	if f.markets > 1 {
		w.Markets = f.markets
	}
	return w, nil
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// checkWorkloads refuses workloads that do not go with a row's mix or strategy. A lock that a delay of Redis's replies leaves
// out would look faster than it is beside the others.
func checkWorkloads(specs []rowSpec) error {
	for _, s := range specs {
		w := s.workload
		switch {
		case w.Hot > 0 && w.Stock > 0:
			return usageError{errors.New("--hot goes without --stock: what circulates is all that there is")}
		case s.mix.Buyers < w.Markets || w.Hot == 0 && s.mix.Sellers < w.Markets:
			return usageError{fmt.Errorf("mix %s: each of %d markets needs a seller and a buyer, or where items are hot a buyer: give a "+
				"larger mix, or fewer markets", s.mix, w.Markets)}
		case w.Hot > 0 && w.Hot < w.Markets:
			return usageError{fmt.Errorf("%d hot items: each of %d markets needs one", w.Hot, w.Markets)}
		}
		if kind, ok := s.spec.Lock(); ok && s.workload.RTTMS > 0 && !kind.Needs.InRedis() {
			return usageError{fmt.Errorf("--rtt delays replies of Redis, and the lock %s is kept in %s: it would look faster than it is",
				kind.Name, kind.Needs)}
		}
	}
	return nil
}

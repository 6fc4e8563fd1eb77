package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
)

// runFlags are the flags of the command run.
type runFlags struct {
	sessionFlags
	strategies, mixes []string
	sellers, buyers   int
	funds             int64
	wallets           int
	browsers          int
	locks             lockFlags
	fencing           bool
	history           string
	keep              bool
	rate              rateFlags
	workload          workloadFlags
}

func newRun(p *program) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --strategy SPEC[,SPEC...] [--mix 5x5[,1x1...]]",
		Short: "Measure strategies under mixes of sellers and buyers",
		Long: `Measure each strategy under each mix, one row after the other, each on a market of its own that is audited
and removed at the end. With --trials they are measured in rounds, each in an order of its own drawn from the seed, and
the tables show medians with their 95% intervals.

Without --rate a buyer orders as soon as its last order is done, so that a server that stops for a while is asked
less. With --rate orders fall due at times that are fixed beforehand, drawn from the seed. An order that finds all
buyers busy waits, and its latency counts from when it was due; after 10 s it is given up. Sellers keep about 1,000
listings up, or as many as --stock says. Several rates are a row each; the report names the highest that was reached
with a 99th percentile under --slo. A rate that was not reached is said to be so, and is no failure. --browsers look on
beside it, at no rate.

With --hot N only N items circulate, so that buyers want the same ones: a mix such as 0x8 has buyers alone, each lists
again at once what it has bought, and may buy from itself. --hold is the work of an application inside the critical
section. --rtt makes a network of it, at the clients' end of their connections to Redis.

With --stock N a row begins with N items on the market.

` + specSyntax + `
'marketsim list' shows the strategies, locks and parameters. A mix is written SELLERSxBUYERS.`,
		Example: `  marketsim run --strategy watch,fine --mix 1x1,5x5
  marketsim run --strategy fine --sellers 5 --buyers 20 --wallets 4
  marketsim run --strategy watch-item,fine,lua --hot 1 --mix 0x8,0x64 --hold 1ms --rtt 500us
  marketsim run --strategy fine,lua --stock 1000000
  marketsim run --strategy watch,fine --rate 500,1k,2k,4k --slo 10ms
  marketsim run --strategy fine:fenced,fine:zookeeper,fine:etcd --fencing --mix 5x5
  marketsim run --strategy coarse:setnx:poll=5ms --json - | jq '.rows[].wait_ms.p99'`,
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

func (f *runFlags) add(cmd *cobra.Command) {
	f.sessionFlags.add(cmd, bench.DefaultDuration, bench.DefaultWarmup, 1)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.strategies, "strategy", nil, "strategies to measure, separated by commas")
	flags.StringSliceVar(&f.mixes, "mix", []string{defaultMix}, "mixes of sellers and buyers, separated by commas")
	flags.IntVar(&f.sellers, "sellers", 0, "sellers of a single mix, with --buyers and instead of --mix")
	flags.IntVar(&f.buyers, "buyers", 0, "buyers of that mix")
	flags.Int64Var(&f.funds, "funds", bench.DefaultFunds, "each account's starting coins")
	flags.IntVar(&f.wallets, "wallets", 0, "all buyers spend from so many accounts (default one each)")
	flags.IntVar(&f.browsers, "browsers", 0,
		"workers who look at listings beside the mix, under a lock that can be shared")
	f.locks.add(cmd)
	f.rate.add(cmd)
	f.workload.add(cmd)
	flags.BoolVar(&f.fencing, "fencing", false,
		"measure each strategy without and with its lock's fences compared at the market")
	flags.StringVar(&f.history, "history", "", "`folder` into which every operation is recorded, for 'marketsim check'")
	_ = cmd.MarkFlagDirname("history")
	flags.BoolVar(&f.keep, "keep", false, "leave the market on the server")
	completeSpecs(cmd, "strategy", false)
	completeList(cmd, "mix", []string{"1x1", "5x1", "5x5"})
}

// config checks the flags, of which some were given.
func (f runFlags) config(given func(flag string) bool) (sessionConfig, error) {
	open, err := f.rate.config(given, f.duration)
	if err != nil {
		return sessionConfig{}, err
	}
	workload, err := f.workload.config(given)
	if err != nil {
		return sessionConfig{}, err
	}
	specs, err := f.specs(given, workload, open.rates)
	if err != nil {
		return sessionConfig{}, err
	}
	if err := f.check(specs); err != nil {
		return sessionConfig{}, err
	}
	locks, err := f.locks.config(specs)
	if err != nil {
		return sessionConfig{}, err
	}
	c, err := f.sessionFlags.config(checkTrials)
	if err != nil {
		return sessionConfig{}, err
	}
	c.specs, c.open, c.locks, c.history = specs, open, locks, f.history
	c.base.Funds, c.base.Wallets, c.base.Browsers, c.base.Keep = f.funds, f.wallets, f.browsers, f.keep
	c.base.Workload = workload
	return c, nil
}

// check refuses values that no row can have.
func (f runFlags) check(specs []rowSpec) error {
	if f.workload.hot > 0 && len(f.rate.rates) > 0 {
		return usageError{errors.New("--rate and --hot: buyers who list again are not free when an order is due; give one of them")}
	}
	if f.workload.hot > 0 && f.funds < bench.LeastHotFunds {
		return usageError{fmt.Errorf("--funds %d: with --hot at least %d, or there may be items that nobody can pay for", f.funds,
			bench.LeastHotFunds)}
	}
	if err := checkWorkloads(specs); err != nil {
		return err
	}
	if f.funds > bench.MaxFunds {
		return usageError{fmt.Errorf("--funds %d: at most %d", f.funds, int64(bench.MaxFunds))}
	}
	if f.funds < 0 || f.wallets < 0 || f.browsers < 0 {
		return usageError{errors.New("--funds, --wallets and --browsers must not be negative")}
	}
	for _, s := range specs {
		kind, ok := s.spec.Lock()
		switch {
		case f.browsers > bench.MaxWorkers-s.mix.Sellers-s.mix.Buyers:
			return usageError{fmt.Errorf("--browsers %d: a row has at most %d workers, and the mix %s belongs to it",
				f.browsers, bench.MaxWorkers, s.mix)}
		case f.browsers > 0 && !(ok && kind.Shares):
			return usageError{fmt.Errorf("--browsers: %s has no lock that can be shared; rw-safe can, as in %s:rw-safe",
				s.spec, lockedName(s.spec))}
		case f.wallets > 0 && f.wallets < f.workload.markets:
			return usageError{fmt.Errorf("--wallets %d: each of %d markets needs one", f.wallets, f.workload.markets)}
		case f.wallets > s.mix.Buyers:
			return usageError{fmt.Errorf("--wallets %d: more than the buyers of mix %s, each of whom spends from one account",
				f.wallets, s.mix)}
		}
	}
	if f.workload.markets > 1 && f.history != "" {
		return usageError{fmt.Errorf("--history records one market, and --markets %d makes several: give one of them",
			f.workload.markets)}
	}
	switch url, _ := f.server.source(); {
	case !f.keep:
		return nil
	case f.workload.markets > 1:
		return usageError{fmt.Errorf("--keep leaves one market, and --markets %d makes several: give one of them", f.workload.markets)}
	case len(specs)*f.trials != 1:
		return usageError{fmt.Errorf("--keep leaves one market, and this run makes %d: give one strategy, one mix and one trial",
			len(specs)*f.trials)}
	case url == "":
		return usageError{errors.New("--keep needs a server that outlives the run: give --redis URL")}
	}
	return nil
}

// prepareHistory makes sure that histories can be recorded into a folder: that it holds none yet, and that files can be
// made in it.
func prepareHistory(root string) error {
	if root == "" {
		return nil
	}
	_, err := history.Find(root)
	switch {
	case err == nil:
		err = fmt.Errorf("%w: %s", history.ErrExists, root)
	case errors.Is(err, history.ErrNone):
		err = makeFolder(root)
	}
	if err != nil {
		return usageError{fmt.Errorf("--history: %w", err)}
	}
	return nil
}

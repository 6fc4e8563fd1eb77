package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/strategies"
)

// specSyntax explains how a strategy is written.
const specSyntax = `A strategy is written strategy[:lock[+watchdog]][:key=value]..., where what is left out has its default: fine,
fine:set-px, fine:poll=2ms and coarse:set-px+watchdog:ttl=500ms:renew=100ms are examples.`

// runFlags are those of the command run.
type runFlags struct {
	sessionFlags
	strategies, mixes []string
	sellers, buyers   int
	funds             int64
	wallets           int
	browsers          int
	locks             lockFlags
	fencing           bool
	keep              bool
	chaos             chaosFlags
}

func newRun(args []string) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --strategy SPEC[,SPEC...] [--mix 5x5[,1x1...]]",
		Short: "Measure strategies under mixes of sellers and buyers",
		Long: `Measure each strategy under each mix, one row after the other, each on a market of its own that is audited and
removed at the end.

With --chaos nothing is measured: for as long as --duration says, faults drawn from a seed strike a private redis-server,
the connections to it and its clients, while they trade. Between two rounds of faults everything is healed and the market
audited. The same seed gives the same faults, whose pauses outlast the lock's ttl: a short one makes for more of them.

` + specSyntax + `
'marketsim list' shows the strategies, locks and parameters. A mix is written SELLERSxBUYERS.`,
		Example: `  marketsim run --strategy watch,fine --mix 1x1,5x5
  marketsim run --strategy fine --sellers 5 --buyers 20 --wallets 4
  marketsim run --strategy watch,fine:set-px:ttl=500ms --chaos --duration 10m
  marketsim run --strategy fine:fenced,fine:zookeeper,fine:etcd --fencing --mix 5x5
  marketsim run --strategy coarse:setnx:poll=5ms --json - | jq '.rows[].wait_ms.p99'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, args) },
	}
	f.add(cmd)
	return cmd
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.sessionFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.strategies, "strategy", nil, "strategies to measure, separated by commas")
	flags.StringSliceVar(&f.mixes, "mix", []string{"5x5"}, "mixes of sellers and buyers, separated by commas")
	flags.IntVar(&f.sellers, "sellers", 0, "sellers of a single mix, with --buyers and instead of --mix")
	flags.IntVar(&f.buyers, "buyers", 0, "buyers of that mix")
	flags.Int64Var(&f.funds, "funds", bench.DefaultFunds, "each account's starting coins")
	flags.IntVar(&f.wallets, "wallets", 0, "all buyers spend from so many accounts (default one each)")
	flags.IntVar(&f.browsers, "browsers", 0, "workers who look at listings beside the mix, under a lock that can be shared")
	f.locks.add(cmd)
	f.chaos.add(cmd)
	flags.BoolVar(&f.fencing, "fencing", false, "measure each strategy without and with its lock's fences compared at the market")
	flags.StringVar(&f.historyRoot, "history", "", "`folder` into which every operation is recorded, for 'marketsim check'")
	_ = cmd.MarkFlagDirname("history")
	flags.BoolVar(&f.keep, "keep", false, "leave the market on the server")
	completeList(cmd, "strategy", names())
	completeList(cmd, "mix", []string{"1x1", "5x1", "5x5"})
}

func (f *runFlags) run(cmd *cobra.Command, args []string) (err error) {
	traders, err := f.traders(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	if f.funds > bench.MaxFunds {
		return usageError{fmt.Errorf("--funds %d: at most %d", f.funds, int64(bench.MaxFunds))}
	}
	if f.funds < 0 || f.wallets < 0 || f.browsers < 0 {
		return usageError{errors.New("--funds, --wallets and --browsers must not be negative")}
	}
	if f.browsers > 0 {
		if err := checkShared(traders); err != nil {
			return err
		}
	}
	for _, t := range traders {
		if f.wallets > t.mix.Buyers {
			return usageError{fmt.Errorf("--wallets %d: more than the buyers of mix %s, each of whom spends from one account",
				f.wallets, t.mix)}
		}
	}
	if f.keep && !f.chaos.on {
		if err := f.checkKeep(len(traders)); err != nil {
			return err
		}
	}
	if err := f.chaos.check(f, cmd.Flags().Changed); err != nil {
		return err
	}
	if err := f.precheck(); err != nil {
		return err
	}
	if f.chaos.on {
		f.rough = &f.chaos
		f.chaos.seed(f, cmd.Flags().Changed("seed"), args)
	}
	if f.chaos.plan {
		return printPlan(cmd.OutOrStdout(), traders, f.seed, f.duration)
	}
	if f.histories, err = historyDirs(f.historyRoot, traders); err != nil {
		return err
	}
	servers, err := f.locks.start(cmd.Context(), needed(traders))
	if err != nil {
		return interruptedOr(cmd.Context(), err)
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	onLeave(cmd.Context(), servers.Close)
	f.lockServers, f.chaos.locks = servers.shown, servers
	base := bench.Config{Funds: f.funds, Wallets: f.wallets, Browsers: f.browsers, Keep: f.keep, Servers: servers.Servers}
	return f.measure(cmd, args, traders, base, nil)
}

// checkShared refuses browsers where they would have to hold a lock alone.
func checkShared(traders []trader) error {
	for _, t := range traders {
		if kind, ok := t.spec.Lock(); !ok || !kind.Shares {
			return usageError{fmt.Errorf("--browsers: %s has no lock that can be shared; rw-safe can, as in %s:rw-safe",
				t.spec, lockedName(t.spec))}
		}
	}
	return nil
}

// lockedName is the strategy of the spec if it takes a lock, else one that does.
func lockedName(spec strategies.Spec) string {
	if _, ok := spec.Lock(); ok {
		return spec.Strategy().Name
	}
	return "coarse"
}

// checkKeep refuses to keep what would not be there afterwards.
func (f *runFlags) checkKeep(rows int) error {
	if rows != 1 {
		return usageError{fmt.Errorf("--keep leaves one market, and this run makes %d: give one strategy and one mix", rows)}
	}
	if url, _ := f.server.source(); url == "" {
		return usageError{errors.New("--keep needs a server that outlives the run: give --redis URL")}
	}
	return nil
}

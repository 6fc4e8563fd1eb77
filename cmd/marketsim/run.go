package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench"
)

func newRun(p *program) *cobra.Command {
	var f rowFlags
	cmd := &cobra.Command{
		Use:  "run --strategy SPEC[,SPEC...] [--mix 5x5[,1x1...]]",
		Args: cobra.NoArgs,
	}
	group(cmd, "Load", func(flags *pflag.FlagSet) {
		f.addStrategy(flags)
		f.addLoad(flags)
		flags.StringSliceVar(&f.rates, "rate", nil, "`orders` a second that fall due, buyer free or not, as in 500,2.5k")
		flags.DurationVar(&f.options.SLO, "slo", 0, "`time` after which an order at a --rate is late")
		flags.BoolVar(&f.sloFails, "slo-fails", false, "exit with 3 where more than 1% of the orders at a --rate are late")
	})
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		f.addMeasuring(flags, bench.DefaultDuration, bench.DefaultWarmup, 1)
		flags.StringVar(&f.options.History, "history", "",
			"`folder` into which every operation is recorded, for 'marketsim check'")
		flags.BoolVar(&f.options.Keep, "keep", false, "leave the market on the server")
	})
	_ = cmd.MarkFlagRequired("strategy")
	return f.measures(p, cmd, f.points)
}

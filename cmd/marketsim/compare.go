package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

func newCompare(p *program) *cobra.Command {
	var f rowFlags
	cmd := &cobra.Command{
		Use:  "compare SPEC SPEC...",
		Args: cobra.MinimumNArgs(2),
	}
	group(cmd, "Load", f.addLoad)
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		f.addMeasuring(flags, 5*time.Second, bench.DefaultWarmup, 0) // two strategies take less than three minutes
	})
	return f.measures(p, cmd, func(cmd *cobra.Command, names []string) ([]result.Point, error) {
		if again := names[0] + "#2"; !slices.Contains(names, again) {
			names = append(names, again)
		}
		return f.points(cmd, names)
	})
}

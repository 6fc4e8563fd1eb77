package main

import (
	"errors"
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
		Use:   "compare SPEC SPEC...",
		Short: "Say which strategy is faster, or whether that is not known",
		Long: `Measure strategies in rounds, each row once a round and in a new order, and say of each what it is against the
first, under each mix: faster, slower, no difference or not decided. What is judged is the ratio of their purchases/s
inside each round. All intervals hold at once with 95%, so more pairs take more rounds. The first strategy is measured
twice: where it is found faster or slower than itself, nothing is decided. Of stored runs, 'marketsim report OLD NEW'
shows the rows side by side, and benchstat compares what 'marketsim report --format gobench' prints of each.`,
		Example: `  marketsim compare fine fine-wallet --mix 5x5,5x20
  marketsim compare coarse coarse:set-px --trials 15 --margin 2% --out results/set-px`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("compare what? give two or more strategies")
			}
			return nil
		},
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

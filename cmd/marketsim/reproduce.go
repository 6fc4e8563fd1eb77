package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// The defaults of reproduce: two minutes. A claim takes six rounds in which all rows that it needs are steady.
const (
	reproduceDuration = time.Second
	reproduceWarmup   = 200 * time.Millisecond
	reproduceTrials   = 9
)

func newReproduce(p *program) *cobra.Command {
	var f rowFlags
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Reproduce tables 6-1 to 6-3 of Redis in Action",
		Long: `Measure the nine rows of tables 6-1 to 6-3 of Redis in Action in rounds, in about two minutes, and print their
medians beside what the book printed, scaled to its 60 s. Each of the book's twelve claims holds if the 95% interval of
its number lies inside the tolerance, and does not hold if it lies outside; else it is not decided, and longer rows may
decide it. On the embedded server no claim is judged.`,
		Example: `  marketsim reproduce
  marketsim reproduce --duration 60s --trials 6    an hour, rows as long as the book's
  marketsim reproduce --redis redis://localhost:6379`,
		Args: cobra.NoArgs,
	}
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		f.addMeasuring(flags, reproduceDuration, reproduceWarmup, reproduceTrials)
	})
	f.reproduces = reference.Tables()
	return f.measures(p, cmd, func(*cobra.Command, []string) ([]result.Point, error) { return published(), nil })
}

// published are the rows of the book's tables, which begin without listings as the book's do.
func published() (points []result.Point) {
	for _, r := range reference.Rows() {
		mix := result.Mix{Sellers: r.Listers, Buyers: r.Buyers}
		points = append(points, result.Point{Strategy: r.Locking, Mix: mix, Load: result.Load{Empty: true}})
	}
	return points
}

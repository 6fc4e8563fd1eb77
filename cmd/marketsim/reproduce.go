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

// The same on the embedded server: with what rows need besides their load, 40 seconds on a busy machine.
const (
	embeddedDuration = 800 * time.Millisecond
	embeddedTrials   = 3
)

// shorten takes from a reproduction on the embedded server, whose speed is judged by nobody, what was not asked for.
func (p *plan) shorten() {
	if !p.asked("trials") {
		p.config.Trials = embeddedTrials
	}
	if !p.asked("duration") {
		p.options.Duration = embeddedDuration
		p.config.DurationSeconds = embeddedDuration.Seconds()
	}
}

func newReproduce(p *program) *cobra.Command {
	var f rowFlags
	cmd := &cobra.Command{
		Use:  "reproduce",
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

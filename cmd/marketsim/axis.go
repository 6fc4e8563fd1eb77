package main

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
)

// axisSyntax explains how an axis is written.
const axisSyntax = `An axis is written NAME=VALUES, with values that ascend, separated by commas:

  clients  so many sellers and as many buyers; of a market with hot items, buyers alone
  hot      only so many items circulate: a buyer lists again what it bought, and nobody else sells
  hold     work between the reads and the write of each operation, with its locks held; a script does it before
  rtt      by how much each reply is delayed on its way to a worker, as by a network
  markets  so many markets with the clients divided among them, on a cluster spread over its masters

hold and rtt take times, of which 0 may be the first. A..B goes on from A to B as the three values before the dots do,
of which A is the last: by their ratio, if it is the same twice, or else by their difference. 1,2,4..64 is 1,2,4,8,16,32,64
and 10,20,30..60 is 10,20,30,40,50,60. After two values A..B goes on by their ratio or by their difference, if only one
of them arrives at B. A range that does not arrive at B exactly is refused.`

// axisKinds are those of all axes, in the order of result.AxisNames.
func axisKinds() []sweep.AxisKind {
	return []sweep.AxisKind{
		{Name: result.Clients, Example: "clients=1,2,4..64", Most: bench.MaxWorkers},
		{Name: result.Hot, Example: "hot=1,10,1000", Most: bench.MaxHot},
		{Name: result.Hold, Example: "hold=0,1ms,10ms", Most: bench.MaxHold.Microseconds(), Timed: true},
		{Name: result.RTT, Example: "rtt=0,0.2ms,1ms,5ms", Most: bench.MaxRTT.Microseconds(), Timed: true},
		{Name: result.Markets, Example: "markets=1,2,3", Most: bench.MaxMarkets},
	}
}

// parseAxes reads the axes of --axis.
func parseAxes(texts []string) ([]result.Axis, error) {
	var all []result.Axis
	for _, text := range texts {
		axis, err := sweep.ParseAxis(text, axisKinds())
		if err != nil {
			return nil, usageError{fmt.Errorf("--axis %s: %w", quotable(text), err)}
		}
		if slices.ContainsFunc(all, func(a result.Axis) bool { return a.Name == axis.Name }) {
			return nil, usageError{fmt.Errorf("--axis %s is given twice: put its values into one list", axis.Name)}
		}
		all = append(all, axis)
	}
	if len(all) > 2 {
		var given []string
		for _, axis := range all {
			given = append(given, string(axis.Name))
		}
		return nil, usageError{fmt.Errorf("a sweep has at most two axes, and these are %s", english.WordSeries(given, "and"))}
	}
	return all, nil
}

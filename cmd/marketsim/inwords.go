package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/strategies/lock"
)

// The lines in plain words below lists and verdicts. Those below a run's tables and below faults are made in bench/report.

// verdictsInWords says what the verdicts on some histories come to: what is violated first.
func verdictsInWords(verdicts []judged) string {
	said := map[history.Answer][]string{}
	for _, v := range verdicts {
		name, answer := v.Subject+" "+v.Mix, v.Market()
		said[answer] = append(said[answer], name)
	}
	var lines []string
	if names := said[history.Violated]; len(names) > 0 {
		lines = append(lines, fmt.Sprintf("With %s money or items went wrong: no order of the operations explains what clients saw.",
			named(names)))
	}
	if names := said[history.Undecided]; len(names) > 0 {
		lines = append(lines, fmt.Sprintf("Not decided in time: %s.", named(names)))
	}
	if names := said[history.Linearizable]; len(names) > 0 {
		lines = append(lines, fmt.Sprintf("With %s nothing is wrong: an order of the operations explains what clients saw of money and items.",
			named(names)))
	}
	if names := twoHolders(verdicts); len(names) > 0 {
		lines = append(lines, fmt.Sprintf("Two held a lock at once with %s.", named(names)))
	}
	if len(lines) == 0 {
		return "No history was judged."
	}
	return strings.Join(lines, " ")
}

// mostNamed is how many histories a line names.
const mostNamed = 3

// named lists names, or the first of them and how many more there are.
func named(names []string) string {
	if n := len(names); n > mostNamed {
		names = append(slices.Clone(names[:mostNamed-1]), english.Plural(n-mostNamed+1, "other", ""))
	}
	return english.WordSeries(names, "and")
}

// twoHolders names the histories in which a lock was held by two.
func twoHolders(verdicts []judged) (names []string) {
	for _, v := range verdicts {
		if v.Part(history.LocksPart).Wrong > 0 {
			names = append(names, v.Subject+" "+v.Mix)
		}
	}
	return names
}

// overviewInWords says how much of what is listed is right. It is one line, so that a list fits a screen.
func overviewInWords(all []entry) string {
	var strategies, safe, wrong int
	for _, e := range all {
		switch {
		case e.kind == "strategy":
			strategies++
			if e.protects.Items && e.protects.Accounts {
				safe++
			}
		case e.wrong():
			wrong++
		}
	}
	return fmt.Sprintf("%d of %d strategies keep items and accounts right; %d locks are wrong.", safe, strategies, wrong)
}

// inWords says of a name what it does not keep right or does not promise.
func (e entry) inWords() string {
	switch {
	case e.kind == "strategy" && !e.protects.Items:
		return e.name + " keeps neither items nor coins right when several trade at once."
	case e.kind == "strategy" && !e.protects.Accounts:
		return e.name + " keeps items right, but not an account that several buyers spend from."
	case e.kind == "strategy":
		return e.name + " keeps items right, and an account that several buyers spend from."
	case e.kind == "lock" && len(e.missing) > 0:
		return fmt.Sprintf("%s does not promise: %s.", e.name, strings.Join(e.missing, ", "))
	case e.kind == "scenario" && len(e.promises) > 0:
		return fmt.Sprintf("A lock that promises %q should come through %s.", e.promises[0], e.name)
	case e.kind == "scenario":
		return "No promise of a lock covers " + e.name + "."
	}
	return e.name + " promises all that a lock can."
}

// promisesInWords says how many locks make the promises that matter most when something fails.
func promisesInWords(kinds []lock.Kind) string {
	made := func(so func(lock.Promises) bool) int {
		n := 0
		for _, k := range kinds {
			if so(k.Promises) {
				n++
			}
		}
		return n
	}
	return fmt.Sprintf("%d of %d locks come free when their holder dies, and %d number their holders, so that a late write can be "+
		"refused.", made(func(p lock.Promises) bool { return p.SurvivesCrash }), len(kinds),
		made(func(p lock.Promises) bool { return p.Fenced }))
}

// scenariosInWords says how many scenarios a lock can promise to come through.
func scenariosInWords(all []fault.Scenario) string {
	covered := 0
	for _, sc := range all {
		if sc.Promise != "" {
			covered++
		}
	}
	return fmt.Sprintf("A lock can promise to come through %d of these %d scenarios; the others no promise covers.", covered,
		len(all))
}

package main

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// judgedAs is the verdict on a history of a strategy, with the answers about items and about locks.
func judgedAs(subject string, items, locks history.Answer) judged {
	wrong := map[history.Answer]int{history.Violated: 1}
	return judged{Dir: "h", CheckResult: history.CheckResult{Subject: subject, Mix: "5x5", Parts: []history.Part{
		{Name: "items", Answer: items, Wrong: wrong[items]}, {Name: history.LocksPart, Answer: locks, Wrong: wrong[locks]},
	}}}
}

// TestVerdictsInWords: what is wrong comes first, and a lock that two held is not called a wrong market.
func TestVerdictsInWords(t *testing.T) {
	right := judgedAs("fine", history.Linearizable, history.Linearizable)
	for want, verdicts := range map[string][]judged{
		"No history was judged.": nil,
		"With fine 5x5 nothing is wrong: an order of the operations explains what clients saw of money and items.": {right},
		"With unsafe 5x5 money or items went wrong: no order of the operations explains what clients saw. " +
			"With fine 5x5 nothing is wrong: an order of the operations explains what clients saw of money and items.": {
			right, judgedAs("unsafe", history.Violated, history.NotChecked)},
		"Not decided in time: watch 5x5.": {judgedAs("watch", history.Undecided, history.NotChecked)},
		"With fine 5x5 nothing is wrong: an order of the operations explains what clients saw of money and items. " +
			"Two held a lock at once with fine 5x5.": {judgedAs("fine", history.Linearizable, history.Violated)},
		"Not decided in time: a 5x5, b 5x5 and 2 others.": {judgedAs("a", history.Undecided, ""), judgedAs("b", history.Undecided, ""),
			judgedAs("c", history.Undecided, ""), judgedAs("d", history.Undecided, "")},
	} {
		if got := verdictsInWords(verdicts); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestListsInWords: each entry says what it does not keep right or does not promise, and the lists count.
func TestListsInWords(t *testing.T) {
	said := map[string]string{}
	for _, e := range entries(catalogue.Full()) {
		said[e.kind+" "+e.name] = e.inWords()
	}
	for name, want := range map[string]string{
		"strategy unsafe": "unsafe keeps neither items nor coins right when several trade at once.",
		"strategy fine":   "fine keeps items right, but not an account that several buyers spend from.",
		"strategy lua":    "lua keeps items right, and an account that several buyers spend from.",
		"lock zookeeper":  "zookeeper does not promise: reentrant, shared, serves writers.",
		"scenario pause":  "No promise of a lock covers pause.",
	} {
		if said[name] != want {
			t.Errorf("%s: %q, want %q", name, said[name], want)
		}
	}
	if said["scenario crash-holding"] != `A lock that promises "survives a crash" should come through crash-holding.` {
		t.Error(said["scenario crash-holding"])
	}
	kinds := []lock.Kind{{Promises: lock.Promises{SurvivesCrash: true}}, {Promises: lock.Promises{Fenced: true}}, {}}
	if got := promisesInWords(kinds); got != "1 of 3 locks come free when their holder dies, and 1 number their holders, so that "+
		"a late write can be refused." {
		t.Error(got)
	}
	scenarios := []fault.Scenario{{Promise: "x"}, {}, {}}
	if got := scenariosInWords(scenarios); !strings.HasPrefix(got, "A lock can promise to come through 1 of these 3 scenarios;") {
		t.Error(got)
	}
}

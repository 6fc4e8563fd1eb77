package judge

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// A search that chance has ended concludes nothing, and one that the time has
// ended says how far it came.
func TestPromisesOfASearchThatWasStopped(t *testing.T) {
	for _, c := range []struct{ stopped, state string }{
		{"", "kept"},
		{"the time that it was given", "kept"},
		{"because " + search.ErrChance.Error(), "unchecked"},
	} {
		row := findings.Exploration{
			Judged: true, Program: locks, Searched: findings.Searched{Stopped: c.stopped},
		}
		found := judgement{
			searches: []findings.Exploration{row}, tested: map[string]bool{exclusive: true},
		}

		got := found.verdict(exclusive, "")
		if got.State != c.state || (got.Why == "") != (c.stopped == "") {
			t.Errorf("stopped %q: %+v, want %s", c.stopped, got, c.state)
		}
	}
}

// A token holds a program's command, and is typed into a shell as it stands.
func TestTokensNeedNoQuotes(t *testing.T) {
	for want, command := range map[string][]string{
		"python3_lock.py":         {"python3", "lock.py"},
		"sh_-c_echo___HOME__ls__": {"sh", "-c", "echo '$HOME'\nls *"},
	} {
		if got := (Options{Command: command}).subject(); got != want {
			t.Errorf("%q is %s in a token, want %s", command, got, want)
		}
	}
}

// A token of any fault that a report prints can be played again.
func TestTokensOfEachFault(t *testing.T) {
	steps := []string{"d1", "w2", "l1", "r1", "d2-3"}
	for _, kind := range Kinds() {
		steps = append(steps, string(kind)+"1", string(kind)+"2-2")
	}
	for _, step := range steps {
		if err := CheckToken("x5/any/lock/d1." + step); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	if err := CheckToken("x5/any/lock/d1.q-1"); !errors.Is(err, search.ErrToken) {
		t.Errorf("what is no step: %v", err)
	}
}

// The search reports one schedule in which a client is kept out. Others that break another
// promise by the same harm count nevertheless.
func TestWhatKeepsOthersOut(t *testing.T) {
	for want, struck := range map[string][]string{
		survivesCrash: {"die1"}, survivesCancel: {"late1", "cancel2-1"}, "who waits gets in": nil,
	} {
		if got := keptOutBreaks(struck); got != want {
			t.Errorf("after %q it breaks %q, want %q", struck, got, want)
		}
	}

	found := judgement{
		tested:  map[string]bool{survivesCrash: true, survivesCancel: true},
		keptOut: map[string]string{survivesCancel: "Bob has waited"},
	}
	for promise, state := range map[string]string{survivesCrash: "kept", survivesCancel: "broken"} {
		if got := found.verdict(promise, ""); got.State != state {
			t.Errorf("%s: %+v, want %s", promise, got, state)
		}
	}
}

// Calls are cancelled by default, but not those of a program that says nothing of it, of one
// that buys, or where no fault happens.
func TestWhoIsCancelled(t *testing.T) {
	for want, o := range map[string]Options{
		"":                            {Program: locks, Bounds: explore.Bounds{Faults: 1}},
		"no call was to be cancelled": {Program: "one-item", Bounds: explore.Bounds{Faults: 1}},
	} {
		heard := ProgramResult{kinds: o.kinds()}
		last := o.kinds()[len(o.kinds())-1]
		if got := o.uncancelled(heard); got != want || isCancel(string(last)) != (want == "") {
			t.Errorf("%s: %q, of %v, want %q", o.Program, got, o.kinds(), want)
		}
	}

	o := Options{Program: locks, Bounds: explore.Bounds{Faults: 1}}
	got := o.uncancelled(ProgramResult{kinds: Kinds()})
	if !strings.Contains(got, "does not hear it") {
		t.Errorf("a program that does not hear: %q", got)
	}

	o.Bounds.Faults = 0
	if got := o.uncancelled(ProgramResult{kinds: o.kinds()}); got != "no call was to be cancelled" {
		t.Errorf("without faults: %q", got)
	}
}

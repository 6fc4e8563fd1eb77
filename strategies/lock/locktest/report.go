package locktest

import (
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/strategies/lock"
)

// A State is what became of a promise.
type State string

// The states.
const (
	Kept      State = "kept"      // all its checks passed
	Broken    State = "broken"    // a check failed
	Unchecked State = "unchecked" // a check could not be made
	NotRun    State = "not run"   // a check was not asked for: see go test -run
	NotMade   State = "not made"
)

// A PromiseState is what became of one promise.
type PromiseState struct {
	Promise string // as in lock.Promises.List
	State   State
	Why     string // the check that failed, or what a check lacks; empty if the promise was kept or not made
}

// A Report has a PromiseState for each promise, in the order of lock.Promises.List.
type Report []PromiseState

// Unchecked lists the promises that were made and could not be checked. A test compares the list with what it expects,
// so that it notices when a promise becomes unchecked.
func (r Report) Unchecked() []string {
	var names []string
	for _, p := range r {
		if p.State == Unchecked {
			names = append(names, p.Promise)
		}
	}
	return names
}

// String has a line for each promise.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r {
		fmt.Fprintf(&b, "  %-20s %s", p.Promise, p.State)
		if p.Why != "" {
			fmt.Fprintf(&b, ": %s", p.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A checkResult is what became of one check. The zero value says that it was not run.
type checkResult struct {
	ran, failed bool
	missing     string // what the check lacked
}

// judge makes a report of the results of checks, given by their names.
func judge(promises lock.Promises, results map[string]checkResult) Report {
	var r Report
	for _, p := range promises.List() {
		s := PromiseState{Promise: p.Name, State: NotMade}
		if p.Made {
			s.State, s.Why = state(p.Name, results)
		}
		r = append(r, s)
	}
	return r
}

// state judges one promise. A check that failed breaks it, whatever the other checks found.
func state(promise string, results map[string]checkResult) (s State, why string) {
	s = Kept
	for _, c := range checks {
		if c.promise != promise {
			continue
		}
		switch r := results[c.name]; {
		case r.failed:
			return Broken, c.name
		case !r.ran:
			s, why = NotRun, c.name
		case r.missing != "":
			s, why = Unchecked, r.missing
		}
	}
	return s, why
}

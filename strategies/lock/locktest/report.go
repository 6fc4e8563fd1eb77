package locktest

import (
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/strategies/lock"
)

// A Verdict is what became of a promise.
type Verdict string

// The verdicts.
const (
	Kept      Verdict = "kept"      // all its checks passed
	Broken    Verdict = "broken"    // a check failed
	Unchecked Verdict = "unchecked" // a check could not be made
	NotRun    Verdict = "not run"   // a check was not asked for: see go test -run
	NotMade   Verdict = "not made"
)

// A Finding is what became of one promise.
type Finding struct {
	Promise string // as in lock.Promises.List
	Verdict Verdict
	Why     string // the check that failed, or what it needs; empty if the promise was kept or not made
}

// A Report has a Finding for each promise, in the order of lock.Promises.List.
type Report []Finding

// Unchecked lists the promises that were made and could not be checked. A test compares it with what it expects, so that a
// promise cannot become unchecked unseen.
func (r Report) Unchecked() []string {
	var names []string
	for _, f := range r {
		if f.Verdict == Unchecked {
			names = append(names, f.Promise)
		}
	}
	return names
}

// String has a line for each promise.
func (r Report) String() string {
	var b strings.Builder
	for _, f := range r {
		fmt.Fprintf(&b, "  %-20s %s", f.Promise, f.Verdict)
		if f.Why != "" {
			fmt.Fprintf(&b, ": %s", f.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// An outcome is what became of one check. The zero value is one that was not run.
type outcome struct {
	ran, failed bool
	missing     string // what it lacked to be made
}

// judge makes a report of the checks' outcomes.
func judge(promises lock.Promises, outcomes map[string]outcome) Report {
	var r Report
	for _, p := range promises.List() {
		f := Finding{Promise: p.Name, Verdict: NotMade}
		if p.Made {
			f.Verdict, f.Why = verdict(p.Name, outcomes)
		}
		r = append(r, f)
	}
	return r
}

// verdict looks at the checks of a promise: one that failed breaks it, whatever the others say.
func verdict(promise string, outcomes map[string]outcome) (v Verdict, why string) {
	v = Kept
	for _, c := range checks {
		if c.promise != promise {
			continue
		}
		switch o := outcomes[c.name]; {
		case o.failed:
			return Broken, c.name
		case !o.ran:
			v, why = NotRun, c.name
		case o.missing != "":
			v, why = Unchecked, o.missing
		}
	}
	return v, why
}

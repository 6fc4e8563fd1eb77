package explore

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// A Report is what a search found.
type Report struct {
	Program             Program
	Bounds              Bounds  // with the faults that can happen
	Preemptions, Faults int     // the last bounds that were reached
	Schedules           int     // of these bounds: all different
	Harmful             int     // of these
	Found               []Found // the first of each harm
	Stopped             string  // why it ended before its bounds; empty: it did not
	// Points counts the points of all schedules, and Lost those at which a choice
	// was given up, because the choices before it did not lead there again: there
	// is chance in the clients.
	Points, Lost int
}

// A Found is the shortest schedule to a harm.
type Found struct {
	verify.Violation
	Preemptions, Faults int
	Struck              []Fault // the faults that happened, in order
	Token               string  // for Replay
	Diagram             verify.Diagram
}

// reportOf is the report of a search that has ended.
func reportOf(p Program, b Bounds, r search.Result) *Report {
	report := &Report{
		Program: p, Bounds: b,
		Preemptions: r.Preemptions, Faults: r.Faults,
		Schedules: r.Schedules, Harmful: r.Harmful,
		Stopped: r.Stopped,
		Points:  r.Points, Lost: r.Lost,
	}
	for _, f := range r.Found {
		report.Found = append(report.Found, foundOf(f))
	}
	return report
}

func foundOf(f search.Found) Found {
	found := Found{
		Violation:   f.Violation,
		Preemptions: f.Preemptions, Faults: f.Faults,
		Token: f.Token, Diagram: f.Diagram,
	}
	for _, kind := range f.Struck {
		found.Struck = append(found.Struck, Fault(kind))
	}
	return found
}

// String is the report for a terminal: each harm with its schedule and its token, and
// then the bounds of the search.
func (r *Report) String() (text string) {
	of := r.Program.Subject + ", " + r.Program.Name
	for _, f := range r.Found {
		text += fmt.Sprintf("%s: harm with %s and %s\n\n%s\nIts token: %s\n\n", of,
			preemptions(f.Preemptions), faults(f.Faults), f.Diagram, f.Token)
	}
	return text + of + ": " + r.Bound()
}

// Bound is the sentence that belongs to each "nothing was found": the bounds,
// and what is taken for granted.
func (r *Report) Bound() string {
	found := "nothing in"
	switch {
	case len(r.Found) > 0:
		found = fmt.Sprintf("harm in %d of", r.Harmful)
	case r.Preemptions == 0 && r.Stopped == "":
		found = "not searched, because without a preemption no client comes " +
			"between two requests of another: nothing in"
	}

	kinds := ""
	if r.Faults > 0 {
		kinds = " of these kinds (" + strings.Trim(fmt.Sprint(r.Bounds.Kinds), "[]") + ")"
	}

	lost := ""
	if r.Lost > 0 {
		lost = fmt.Sprintf(", except below %d points of %d, to which the clients did not come again",
			r.Lost, r.Points)
	}

	stopped := ""
	if r.Stopped != "" {
		stopped = "; stopped by " + r.Stopped
	}

	return fmt.Sprintf("%s %s, within %s and %s%s%s; "+
		"a late request comes within %s after its client has given up; %s%s",
		found, english.Plural(r.Schedules, "schedule", ""),
		preemptions(r.Preemptions), faults(r.Faults), kinds, lost,
		r.Program.staysLate(), findings.SearchAssumptions, stopped)
}

func preemptions(n int) string { return english.Plural(n, "preemption", "") }

func faults(n int) string { return english.Plural(n, "fault", "") }

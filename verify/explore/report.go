package explore

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/verify"
)

// A Report is what a search found.
type Report struct {
	Program             Program
	Bounds              Bounds  // with the faults that can happen
	Preemptions, Faults int     // the last bounds that were reached
	Schedules           int     // of these bounds: all different
	Merged              int     // of these: ended where an earlier one had been in the same state
	Harmful             int     // of these
	Left                int     // of all bounds: known, and not played; each may lead to more
	Found               []Found // the first of each harm
	// Why it ended before its bounds: an interruption, Bounds.Schedules, Bounds.Time, or the
	// cause of the context's deadline (context.WithDeadlineCause). Empty: it did not.
	Stopped string
	// Complete says that every order of the clients' requests was played, or would have gone
	// on as one that was: more preemptions would add nothing.
	Complete bool
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
func reportOf(p Program, b Bounds, r search.Summary) *Report {
	report := &Report{
		Program: p, Bounds: b,
		Preemptions: r.Preemptions, Faults: r.Faults,
		Schedules: r.Schedules, Merged: r.Merged, Harmful: r.Harmful,
		Left: r.Left, Stopped: r.Stopped, Complete: r.Complete,
		Points: r.Points, Lost: r.Lost,
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
	case r.Preemptions == 0 && r.Stopped == "" && !r.Complete:
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

	// Complete bounds faults alone: more preemptions would have added nothing.
	within := "within " + preemptions(r.Preemptions) + " and " + faults(r.Faults)
	if r.Complete {
		within = "in every order of their requests, with at most " + faults(r.Faults)
	}

	return fmt.Sprintf("%s %s, %s%s%s; "+
		"a late request comes within %s after its client has given up; %s%s",
		found, english.Plural(r.Schedules, "schedule", ""), within, kinds, lost,
		r.Program.staysLate(), findings.SearchAssumptions, stopped)
}

// Progress is a line for Program.OnProgress to print: how far the search is.
func (r *Report) Progress() string {
	harm := "no harm"
	if len(r.Found) > 0 {
		harms := wording.Names(r.Found, func(f Found) string {
			return f.Harm.String()
		})
		harm = "harm: " + strings.Join(harms, ", ")
	}
	return fmt.Sprintf("%s so far, with %s and %s; %s; %s left at least",
		english.Plural(r.Schedules, "schedule", ""), preemptions(r.Preemptions), faults(r.Faults), harm,
		english.Plural(r.Left, "schedule", ""))
}

func preemptions(n int) string { return english.Plural(n, "preemption", "") }

func faults(n int) string { return english.Plural(n, "fault", "") }

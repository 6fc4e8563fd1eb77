package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/verify"
)

// What a program that was judged did to others, and what helps against it.
var remedies = map[verify.Harm]string{
	verify.TwoHolders: "take the lock and set its expiry by one command, SET key token NX PX ms, " +
		"and let no client's clock decide",
	verify.FreedAnothers: "release by a script that deletes the key only while it has the token of this acquisition",
	verify.NotTold: "return what the script returns that compares the token and deletes the key: " +
		"0 says that the lock had been lost",
	verify.ToldOfNoLoss: "count a lease from when it was asked for, and let the server say " +
		"whether it has ended, not the client's clock",
	verify.Outlived:     "nothing in the lock does: have the store refuse writes with an older fencing token",
	verify.FenceRepeats: "draw the token from a counter that never expires, in the script that takes the lock",
	verify.LockedOut: "set the expiry in the command that takes the lock; a renewal compares the token, and ends with " +
		"the lock, also when a call has failed",
	verify.NoLongerLocks: "after an error close the connection, and give back what the call had locked in the program",
	verify.ToldNo:        "say that the outcome is unknown where a reply was lost, or ask what became of the order",
	verify.ToldYes:       "say yes only after the reply that says so",
	verify.ChargedTwice:  "give each order a number, and record it in the transaction that makes it",
	verify.SoldTwice:     "read and write in one script, or under WATCH of all that is read",
	verify.Overdrawn:     "read and write in one script, or under WATCH of all that is read, the account included",
	verify.DoesNotEnd:    "bound how often and for how long it tries",
}

// judgedWords are what a reader of a judged lock has to know, a line each.
var judgedWords = []string{
	"Lease: how long a lock is held at most if nobody renews it. Whoever takes it after that is right to.",
	"Outlived its lease: a client was stopped for longer, and still works when the next one gets in.",
	"Kept: every schedule with one preemption, and every one with one fault of any kind, was played.",
}

// judged is the report of a program that was judged: what was found, the promises, a
// schedule for each harm, with what breaks a promise first, and then how far the searches came.
func judged(r *findings.Explorations) *Doc {
	of := listed(slices.Sorted(maps.Keys(outcomeOf(r).harmed)))
	d := &Doc{
		Title:    "Judged: " + of,
		Facts:    append([]string{"marketsim " + known(r.Version)}, r.Notes...),
		Findings: judgedFindings(r),
	}
	if r.Replayed != "" {
		d.Title = "Played again: " + of
	}

	if len(r.Promises) > 0 {
		d.Blocks = append(d.Blocks, Block{Heading: "Promises", Table: promisesTable(r.Promises), Note: judgedWords})
	}
	d.Blocks = append(d.Blocks, judgedSchedules(r)...)
	if r.Replayed == "" {
		d.Blocks = append(d.Blocks, Block{
			Heading: "All searches", Table: judgedTable(r.Searches), Note: searchWords(r),
		})
	}
	return d
}

// judgedFindings are the broken promises, and what was not checked; then what breaks none.
func judgedFindings(r *findings.Explorations) (all []string) {
	// Promises by their states, in the words of judgement.verdict (package judge).
	of := map[string][]string{}
	for _, p := range r.Promises {
		of[p.State] = append(of[p.State], p.Promise)
	}
	// A purchase has no promises but the audit: there, what was cut short is unchecked.
	unchecked := of["unchecked"]
	if len(r.Promises) == 0 {
		unchecked = cutSearches(r)
	}

	broken := brokenPromises(r)
	for _, e := range broken {
		all = append(all, fmt.Sprintf("BROKEN PROMISE: %s. %s (%s, in %s).", e.Broken, e.Shows, e.Harm, e.Program))
	}
	// The last place is for what is unchecked: of more than two broken promises the first alone
	// is told in full.
	if most := mostFindings - 1; len(all) > most {
		rest := mapped(broken[most-1:], func(e findings.Exploration) string { return e.Broken })
		all = append(all[:most-1], "BROKEN PROMISES: "+english.WordSeries(rest, "and")+", shown below.")
	}

	if found := withoutBroken(r, unchecked, len(of["not kept"]) > 0); len(broken) == 0 {
		all = append(all, found)
	} else if len(unchecked) > 0 {
		all = append(all, "Unchecked: "+english.WordSeries(unchecked, "and")+".")
	}

	outlives := func(e findings.Exploration) bool { return e.Harm == verify.Outlived }
	if len(broken) == 0 && slices.ContainsFunc(r.Searches, outlives) {
		all = append(all, "A client that is stopped and outlives its lease breaks no promise: "+
			"no lock that expires prevents it.")
	}
	return all
}

// withoutBroken heads the report of a program that broke no promise. untold: it does not notice
// a loss, and has not promised to, which is what the state "not kept" says. What was played again
// is one schedule, and so one search.
func withoutBroken(r *findings.Explorations, unchecked []string, untold bool) string {
	const loses = "a holder that had lost the lock was told that it had released it; few libraries promise to notice."

	switch {
	case r.Replayed != "" && outcomeOf(r).harms > 0:
		return fmt.Sprintf("One schedule was played, and breaks no promise: %s: %s.", r.Searches[0].Harm, r.Searches[0].Shows)
	case r.Replayed != "":
		return "One schedule was played, and did no harm this time."
	case len(unchecked) > 0 && untold:
		return "Unchecked: " + english.WordSeries(unchecked, "and") + ". Nothing was seen broken so far, but " + loses
	case len(unchecked) > 0:
		return "Unchecked: " + english.WordSeries(unchecked, "and") + ". Nothing was seen broken so far."
	case untold:
		return "A loss is not noticed: " + loses + " No other promise was broken."
	}
	return "No promise was broken, within the bounds below."
}

// brokenPromises has a search for each broken promise: the one with the shortest schedule.
func brokenPromises(r *findings.Explorations) (all []findings.Exploration) {
	for _, e := range shortestFirst(r.Broken()) {
		isKnown := func(other findings.Exploration) bool { return other.Broken == e.Broken }
		if !slices.ContainsFunc(all, isKnown) {
			all = append(all, e)
		}
	}
	return all
}

// cutSearches are the searches that ended early, and what ended them.
func cutSearches(r *findings.Explorations) (all []string) {
	for _, e := range r.Searches {
		switch {
		case e.Harm != "":
		case e.Why != "":
			all = append(all, fmt.Sprintf("%s (%s)", e.Program, e.Why))
		case e.Stopped != "":
			all = append(all, fmt.Sprintf("%s (stopped after %s by %s)", e.Program, count(e.Schedules, "schedule"), e.Stopped))
		}
	}
	return all
}

// promisesTable is the state of each promise, and why. A reason that stands above is not
// repeated.
func promisesTable(promises []verify.PromiseState) *Table {
	t := NewTable("promise", "state", "why").Wrapping("why")
	first := map[string]string{} // the promise whose reason it is
	for _, p := range promises {
		why := oneLine(p.Why)
		if above, is := first[why]; is && why != "" {
			why = "as for " + above
		} else {
			first[why] = p.Promise
		}
		t.Add(p.Promise, p.State, why)
	}
	return t
}

// oneLine is a text, such as the last lines of a program, on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// judgedTable is how far the searches of a program came, and how many schedules do each harm.
func judgedTable(all []findings.Exploration) *Table {
	t := NewTable("program", "found", "breaks", "preemptions", "faults", "schedules", "faults that strike").
		Wrapping("found", "breaks", "faults that strike")

	for _, e := range all {
		switch {
		case e.Why != "":
			t.Add(e.Program, "not judged: "+oneLine(e.Why), "", "", "", "", "each kind")
		case e.Harm != "":
			harmful := Number(float64(e.Harmful), runs.Plain) + " of " + Number(float64(e.Schedules), runs.Plain)
			t.Add(e.Program, e.Harm.String(), cmp.Or(e.Broken, "no promise"), fmt.Sprint(e.Preemptions), fmt.Sprint(e.Faults),
				harmful, kindsOf(e))
			t.tone(1, bad)
		default:
			t.Add(e.Program, e.Found(), "", e.WithinPreemptions(), fmt.Sprint(e.Faults),
				Number(float64(e.Schedules), runs.Plain), kindsOf(e))
		}
	}

	return t.withoutIdleColumns("", "each kind")
}

// kindsOf are the faults that could happen.
func kindsOf(e findings.Exploration) string { return cmp.Or(strings.Join(e.Of, ", "), "each kind") }

// searchWords are what a reader of the searches has to know.
func searchWords(r *findings.Explorations) (words []string) {
	words = []string{"Of a harm: the bounds of its shortest schedule, and how many of all schedules do it."}
	if slices.ContainsFunc(r.Searches, func(e findings.Exploration) bool { return e.Lost > 0 }) {
		words = append(words, "Except below: there the program did something else after the same choices, "+
			"and the search gave up.")
	}
	return append(words, "Taken for granted: "+r.Assumptions()+".")
}

// A shown schedule is one with all harms that searches found in it. Each has a Diagram, which
// block reads: judgedSchedules passes over searches without one.
type shownSchedule struct {
	findings.Exploration // the first of them
	also                 []findings.Exploration
}

// judgedSchedules draws each harm once, by its shortest schedule, and each schedule once, with
// all its harms. Other schedules to the same harm, in other programs, have their commands.
func judgedSchedules(r *findings.Explorations) (blocks []Block) {
	var drawn []shownSchedule
	var others []findings.Exploration
	known := map[string]bool{} // harms that are drawn, by what they break
	for _, e := range shortestFirst(r.Searches) {
		key := e.Broken + ": " + string(e.Harm)
		switch {
		case e.Diagram == nil:
		case known[key]:
			others = append(others, e)
		case !joins(drawn, e):
			drawn = append(drawn, shownSchedule{Exploration: e})
		}
		known[key] = known[key] || e.Diagram != nil
	}

	// One of these may be the very schedule that is drawn for another harm.
	others = slices.DeleteFunc(others, func(e findings.Exploration) bool { return joins(drawn, e) })
	for _, s := range drawn {
		blocks = append(blocks, s.block(r.Again(s.Exploration)))
	}
	for _, e := range others {
		blocks = append(blocks, Block{
			Heading: fmt.Sprintf("Also in %s: %s", e.Program, e.Harm), Note: bounds(e), Again: shown(r.Again(e)),
		})
	}
	return blocks
}

// joins adds a harm to the drawn schedule that does it, and reports whether there is one.
func joins(drawn []shownSchedule, e findings.Exploration) bool {
	i := slices.IndexFunc(drawn, func(s shownSchedule) bool { return s.Token == e.Token })
	if i >= 0 {
		drawn[i].also = append(drawn[i].also, e)
	}
	return i >= 0
}

// block is a schedule with its harms and what helps against them.
func (s shownSchedule) block(again string) Block {
	// It is drawn once, with all harms that it does: what each has added below its end is added
	// to a copy, since the result itself is stored.
	all := slices.Concat([]findings.Exploration{s.Exploration}, s.also)
	var harms, breaks []string
	drawn := *s.Diagram
	for _, e := range all {
		harms = append(harms, cmp.Or(e.Harm, verify.NoHarm).String())
		if e.Broken != "" && !slices.Contains(breaks, e.Broken) {
			breaks = append(breaks, e.Broken)
		}
		for _, end := range e.Diagram.End {
			if !slices.Contains(drawn.End, end) {
				drawn.End = append(slices.Clip(drawn.End), end)
			}
		}
	}
	s.Diagram = &drawn

	b := scheduleBlock(s.Exploration, again)
	b.Heading = fmt.Sprintf("%s: %s", s.Program, english.WordSeries(harms, "and"))
	if len(breaks) > 0 {
		b.Heading += ", which breaks " + english.WordSeries(breaks, "and")
	} else if r := s.Harm; r != "" && r != verify.NoHarm {
		b.Heading += ", which breaks no promise"
	}
	for _, e := range all {
		if helps := remedies[e.Harm]; helps != "" {
			b.Note = append(b.Note, "What helps: "+helps+".")
		}
	}
	return b
}

// bounds says how long the schedule of a harm is.
func bounds(e findings.Exploration) []string {
	if e.Harm == "" {
		return nil
	}
	return []string{fmt.Sprintf("The shortest schedule has %s and %s.",
		count(e.Preemptions, "preemption"), count(e.Faults, "fault"))}
}

// shortestFirst has the searches whose harm breaks a promise stand before the others, and the
// schedules with the fewest preemptions and faults before longer ones.
func shortestFirst(all []findings.Exploration) []findings.Exploration {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b findings.Exploration) int {
		if (a.Broken == "") != (b.Broken == "") { // the empty one is the lesser, and comes last
			return cmp.Compare(b.Broken, a.Broken)
		}
		return cmp.Compare(a.Preemptions+a.Faults, b.Preemptions+b.Faults)
	})
	return sorted
}

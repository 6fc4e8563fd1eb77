package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/verify"
)

// Explored is the report of searches: a table of all, and the shortest schedule to
// the first harm of each scheme.
func Explored(r *findings.Explorations) *Doc {
	if r.Judged {
		return judged(r)
	}

	o := outcomeOf(r)
	takenForGranted := "marketsim " + known(r.Version) + ". Taken for granted: " + r.Assumptions() + "."
	d := &Doc{
		Title:    fmt.Sprintf("Every schedule: %s of %s", searches(o.concluded), count(len(o.harmed), "scheme")),
		Facts:    slices.Concat([]string{takenForGranted}, r.Notes, mapped(r.Scripts, stored.Script.String)),
		Findings: exploredFindings(r, o),
	}
	// The table of one search that found harm would say again what its schedule below says.
	if o.concluded > 1 || o.harms == 0 || len(o.failed) > 0 {
		note := "The bounds of a harm are those of its shortest schedule; schedules says how many of all do harm. " +
			"\"Not searched\": without a preemption no client comes between two requests of another."
		all := Block{Heading: "All searches", Table: ExploredTable(r.Searches), Note: []string{note}}
		d.Blocks = append(d.Blocks, all)
	}
	for _, e := range r.Searches {
		if e.Diagram != nil {
			d.Blocks = append(d.Blocks, scheduleBlock(e, r.Again(e)))
		}
	}
	return d
}

// An outcome counts what searches found.
type outcome struct {
	concluded int             // searches
	harms     int             // searches that found harm
	harmed    map[string]bool // by scheme, of all schemes
	failed    map[string]bool // schemes of which a search could not be made
}

func outcomeOf(r *findings.Explorations) outcome {
	o := outcome{harmed: map[string]bool{}, failed: map[string]bool{}}
	for _, e := range r.Searches {
		o.harmed[e.Scheme] = o.harmed[e.Scheme] || e.Harm != ""
		if e.Concludes() {
			o.concluded++
		}
		if e.Why != "" {
			o.failed[e.Scheme] = true
		}
		if e.Harm != "" {
			o.harms++
		}
	}
	return o
}

// exploredFindings are broken promises, then the harm, and the schemes without any.
func exploredFindings(r *findings.Explorations, o outcome) (all []string) {
	for _, e := range r.Broken() {
		all = append(all, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s.",
			e.Scheme, e.Broken, e.Program, e.Found()))
	}

	// One search that concludes, and found harm, tells of it in its schedule.
	switch {
	case o.concluded == 0:
		all = append(all, "Nothing can be concluded: no search came to its end.")
	case o.harms == 0:
		all = append(all, fmt.Sprintf("No harm was found in %s, within the bounds below.", searches(o.concluded)))
	case o.concluded > 1:
		all = append(all, fmt.Sprintf("Harm was found in %d of %s.", o.harms, searches(o.concluded)))
	}

	if safe := safeSchemes(r, o); o.harms > 0 && len(safe) > 0 {
		all = append(all, "Nothing was found against "+listed(safe)+".")
	}
	return atMost(all)
}

// safeSchemes are the schemes of which a search concludes, none found harm, and all were made.
func safeSchemes(r *findings.Explorations, o outcome) (safe []string) {
	for _, e := range r.Searches {
		if e.Concludes() && !o.harmed[e.Scheme] && !o.failed[e.Scheme] && !slices.Contains(safe, e.Scheme) {
			safe = append(safe, e.Scheme)
		}
	}
	return safe
}

func searches(n int) string { return english.Plural(n, "search", "searches") }

// ExploredTable is what searches found, a row each.
func ExploredTable(all []findings.Exploration) *Table {
	t := NewTable("scheme", "program", "faults that strike", "found", "preemptions", "faults", "schedules").
		Wrapping("faults that strike", "found")
	for _, e := range all {
		if e.Why != "" {
			t.Add(e.Scheme, cmp.Or(e.Program, none), "", e.Found())
			continue
		}

		// A column in which every search has this is left out at the end.
		of := "each kind"
		if len(e.Of) > 0 {
			of = strings.Join(e.Of, ", ")
		}
		schedules := Number(float64(e.Schedules), runs.Plain)
		tone := plain
		if e.Harm != "" {
			schedules = Number(float64(e.Harmful), runs.Plain) + " of " + schedules
			tone = bad
		}
		t.Add(e.Scheme, e.Program, of, e.Found(), e.WithinPreemptions(), fmt.Sprint(e.Faults), schedules)
		t.tone(3, tone)
	}

	// A filter has a value for each row: the loop has added one for each search, in order.
	t.Filters = exploredFilters(all)
	return t.withoutIdleColumns("", "each kind")
}

// exploredFilters choose among searches by scheme, program and harm, where they are more
// than a screen shows.
func exploredFilters(all []findings.Exploration) []Filter {
	const screen = 20 // rows
	if len(all) <= screen {
		return nil
	}
	return []Filter{
		{Label: "scheme", Values: mapped(all, func(e findings.Exploration) string { return e.Scheme })},
		{Label: "program", Values: mapped(all, func(e findings.Exploration) string { return e.Program })},
		{Label: "found", Values: mapped(all, foundBriefly)},
	}
}

// foundBriefly is what a search found, to choose by.
func foundBriefly(e findings.Exploration) string {
	switch {
	case e.Why != "":
		return "not explored"
	case e.Harm != "":
		return e.Harm.String()
	case !e.Concludes():
		return "nothing concluded"
	}
	return "nothing"
}

// Schedules are the shortest schedules to the harms that were found, a figure each. A figure's
// name, by which --figure chooses it, is the scheme, or if that has several figures the program
// and the harm, with a number if that name is there already.
func Schedules(r *findings.Explorations) (all []Figure) {
	drawn := slices.DeleteFunc(slices.Clone(r.Searches), func(e findings.Exploration) bool { return e.Diagram == nil })
	of := map[string]int{}    // figures of a scheme
	named := map[string]int{} // figures with a name
	for _, e := range drawn {
		of[e.Scheme]++
	}

	for _, e := range drawn {
		f := schedule(e)
		if of[e.Scheme] > 1 {
			f.Name = strings.NewReplacer(" ", "-", "'", "").Replace(e.Program + "-" + string(e.Harm))
		}
		named[f.Name]++
		if n := named[f.Name]; n > 1 {
			f.Name = fmt.Sprintf("%s-%d", f.Name, n)
		}
		all = append(all, f)
	}
	return all
}

func schedule(e findings.Exploration) Figure {
	title := fmt.Sprintf("%s in %s: %s", e.Scheme, e.Program, cmp.Or(e.Harm, verify.NoHarm))
	return Figure{Name: e.Scheme, Title: title, Schedule: e.Diagram}
}

// scheduleBlock is a harm with its shortest schedule, which has a Diagram, as a table and as a
// picture.
func scheduleBlock(e findings.Exploration, again string) Block {
	figure := schedule(e)
	head, rows := e.Diagram.Cells()
	t := NewTable(head...).Wrapping(head[1:]...)
	t.Rows = mapped(rows, func(row []string) []Cell { return cells(row...) })

	return Block{
		Heading:  figure.Title,
		Note:     slices.Concat(e.Diagram.End, bounds(e)),
		Table:    t,
		Schedule: &figure,
		Again:    shown(again),
	}
}

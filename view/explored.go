package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/verify"
)

// Explored is the report of searches: a table of all, and the shortest schedule to the first harm of each scheme.
func Explored(r *verify.Explorations) *Doc {
	harmed := map[string]bool{} // of each scheme, whether it was
	searched, harms := 0, 0
	for _, e := range r.Searches {
		harmed[e.Scheme] = harmed[e.Scheme] || e.Harm != ""
		if e.Concludes() {
			searched++
		}
		if e.Harm != "" {
			harms++
		}
	}
	d := &Doc{
		Title: fmt.Sprintf("Every schedule: %s of %s", searches(searched), count(len(harmed), "scheme")),
		Facts: []string{
			"marketsim " + known(r.Version) + ". Taken for granted: " + verify.Assumed + "; a late request comes within two " +
				"leases or two reply time-outs, whichever is longer, after its client has given up.",
		},
	}
	for _, e := range r.Broken() {
		d.Findings = append(d.Findings, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s.",
			e.Scheme, e.Broken, e.Program, e.Found()))
	}
	switch {
	case searched == 0:
		d.Findings = append(d.Findings, "Nothing can be concluded: no search came to its end.")
	case harms == 0:
		d.Findings = append(d.Findings, fmt.Sprintf("No harm was found in %s, within the bounds below.", searches(searched)))
	case searched > 1:
		d.Findings = append(d.Findings, fmt.Sprintf("Harm was found in %d of %s.", harms, searches(searched)))
	}
	var safe []string
	for _, e := range r.Searches {
		if e.Concludes() && !harmed[e.Scheme] && !slices.Contains(safe, e.Scheme) {
			safe = append(safe, e.Scheme)
		}
	}
	if harms > 0 && len(safe) > 0 {
		d.Findings = append(d.Findings, "Nothing was found of "+listed(safe)+".")
	}
	d.Findings = atMost(d.Findings)
	note := "Of a harm the bounds are those of the shortest schedule, and schedules says how many of how many do harm. " +
		"\"Not searched\": without a preemption no client comes between two requests of another."
	if searched > 1 || harms == 0 {
		d.Blocks = append(d.Blocks, Block{Heading: "All searches", Table: ExploredTable(r.Searches), Note: []string{note}})
	}
	for _, e := range r.Searches {
		if e.Diagram != nil {
			d.Blocks = append(d.Blocks, scheduleBlock(e))
		}
	}
	return d
}

func searches(n int) string { return english.Plural(n, "search", "searches") }

// ExploredTable is what searches found, a row each.
func ExploredTable(all []verify.Explored) *Table {
	t := NewTable("scheme", "program", "faults that strike", "found", "preemptions", "faults", "schedules")
	for _, e := range all {
		if e.Why != "" {
			t.Add(e.Scheme, none, "", e.Found())
			continue
		}
		of, schedules := "each kind", Number(float64(e.Schedules), result.Number)
		if len(e.Of) > 0 {
			of = strings.Join(e.Of, ", ")
		}
		if e.Harm != "" {
			schedules = fmt.Sprintf("%d of %d", e.Harmful, e.Schedules)
		}
		t.Add(e.Scheme, e.Program, of, e.Found(), fmt.Sprint(e.Preemptions), fmt.Sprint(e.Faults), schedules)
	}
	return t.without("", "each kind")
}

// ScheduleTitle is what stands above a schedule.
func ScheduleTitle(e verify.Explored) string {
	return fmt.Sprintf("%s in %s: %s", e.Scheme, e.Program, cmp.Or(e.Harm, verify.NoHarm))
}

// scheduleBlock is a harm with its shortest schedule: a table where nothing can be drawn, and else a picture.
func scheduleBlock(e verify.Explored) Block {
	return Block{
		Heading: ScheduleTitle(e),
		Note: append(slices.Clone(e.Diagram.End), fmt.Sprintf("The shortest schedule has %s and %s. Play it again: %s",
			count(e.Preemptions, "preemption"), count(e.Faults, "fault"), "marketsim explore --replay "+e.Token)),
		Table: scheduleTable(*e.Diagram), Schedule: e.Diagram,
	}
}

// scheduleTable is a schedule with time downwards, and a column a client and one for the server.
func scheduleTable(d verify.Diagram) *Table {
	head, rows := d.Cells()
	t := NewTable(head...)
	for _, cells := range rows {
		t.Add(cells...)
	}
	return t
}

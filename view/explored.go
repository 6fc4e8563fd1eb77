package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/verify"
)

// Explored is the report of searches through schedules: a table of all, and the shortest schedule to the first harm of
// each scheme.
func Explored(r *verify.Explorations) *Doc {
	harmed := map[string]bool{} // of each scheme, whether it was
	searched, harms := 0, 0
	for _, e := range r.Searches {
		harm := e.Harm != ""
		harmed[e.Scheme] = harmed[e.Scheme] || harm
		if e.Concludes() {
			searched++
		}
		if harm {
			harms++
		}
	}
	d := &Doc{
		Title: fmt.Sprintf("Every schedule: %s of %s", searches(searched), count(len(harmed), "scheme")),
		Facts: []string{
			"marketsim " + known(r.Version) + ". Taken for granted: " + r.Assumed() + ".",
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
	if r.Judged {
		d.Title, d.Findings = "Judged: "+listed(slices.Sorted(maps.Keys(harmed))), d.Findings[:len(r.Broken())]
		if len(d.Findings) == 0 {
			d.Findings = []string{"Nothing breaks what a lock promises, within the bounds below. That a client which is " +
				"stopped outlives its lease breaks nothing: no lock that expires prevents it."}
		}
	}
	var safe []string
	for _, e := range r.Searches {
		if e.Concludes() && !harmed[e.Scheme] && !slices.Contains(safe, e.Scheme) {
			safe = append(safe, e.Scheme)
		}
	}
	if harms > 0 && len(safe) > 0 && !r.Judged {
		d.Findings = append(d.Findings, "Nothing was found of "+listed(safe)+".")
	}
	d.Findings = atMost(d.Findings)
	note := "Of a harm the bounds are those of the shortest schedule, and schedules says how many of how many do harm. " +
		"\"Not searched\": without a preemption no client comes between two requests of another."
	if searched > 1 || harms == 0 || r.Judged {
		d.Blocks = append(d.Blocks, Block{Heading: "All searches", Table: ExploredTable(r.Searches), Note: []string{note}})
	}
	for _, e := range r.Searches {
		if e.Diagram != nil {
			d.Blocks = append(d.Blocks, scheduleBlock(e, r.Again(e)))
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
func scheduleBlock(e verify.Explored, again string) Block {
	return Block{
		Heading: ScheduleTitle(e),
		Note: append(slices.Clone(e.Diagram.End), fmt.Sprintf("The shortest schedule has %s and %s. Play it again: %s",
			count(e.Preemptions, "preemption"), count(e.Faults, "fault"), again)),
		Table: ScheduleTable(*e.Diagram), Schedule: e.Diagram,
	}
}

// ScheduleTable is a schedule with time downwards, and a column a client and one for the server.
func ScheduleTable(d verify.Diagram) *Table {
	t := NewTable(slices.Concat([]string{"time"}, d.Clients, []string{"server"})...)
	last := time.Duration(-1)
	for _, e := range d.Events {
		cells := make([]string, len(d.Clients)+2)
		cells[len(cells)-1] = e.Reply
		if e.At != last {
			cells[0], last = e.At.String(), e.At
		}
		if e.Client >= 0 {
			cells[1+e.Client] = e.Does
		}
		t.Add(cells...)
	}
	return t
}

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/metric"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/verify"
)

// Faults is the report of what scenarios found: a table of all, and one for each
// scenario, with what happened and why.
func Faults(f *findings.FaultTable) *Doc {
	m := f.Manifest
	d := &Doc{
		Title: fmt.Sprintf("What fails: %s, %s", count(len(f.Scenarios), "scenario"), count(len(f.Subjects), "scheme")),
		Facts: []string{fmt.Sprintf("marketsim %s on %s %s (%s); %s, %s",
			known(m.Version), known(m.Server), known(m.ServerVersion), known(m.Backend), m.Go, m.OS)},
		Findings: faultFindings(f),
	}
	d.Facts = append(d.Facts, paired(m.Libraries)...)
	if len(f.Findings) > 1 {
		note := "What happened to money and items, and how long others were kept out, in leases of the holder. " +
			brokenMark + ": the lock had promised otherwise. " + none + ": it cannot happen to this scheme."
		d.Blocks = []Block{{Heading: "All findings", Table: faultTable(f), Map: true, Note: []string{note}}}
	}
	if n := f.Kept(); n > 0 {
		d.Facts = append(d.Facts, count(n, "finding")+
			" kept from an earlier run, because this machine lacks what they need")
	}
	for i, sc := range f.Scenarios {
		b := Block{Heading: fmt.Sprintf("%d. %s: %s", i+1, sc.Name, sc.Title), Note: []string{"Not reached."}}
		if found := f.Of(sc.Name); len(found) > 0 {
			b.Table, b.Note = scenarioTable(found), nil
		}
		d.Blocks = append(d.Blocks, b)
	}
	return d
}

// faultFindings are broken promises, what makes the table count less (an early end,
// no Redis), and the harm in it.
func faultFindings(f *findings.FaultTable) (all []string) {
	for _, b := range f.Broken() {
		all = append(all, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s.",
			b.Subject, b.Broken, b.Scenario, b.Outcome()))
	}
	if f.Status != stored.Complete {
		all = append(all, fmt.Sprintf("The run was %s: %d of %s were made.", ended(string(f.Status)), f.Found(),
			count(len(f.Scenarios)*len(f.Subjects), "finding")))
	}
	if f.Manifest.Backend == "embedded" {
		all = append(all, "The server was embedded miniredis: this is not Redis's behaviour.")
	}
	harmed := map[string]bool{}
	harms, played := 0, 0
	for _, x := range f.Findings {
		if x.Harm == "" {
			continue
		}
		played++
		harmed[x.Subject] = harmed[x.Subject] || x.Verdict.Harm()
		if x.Verdict.Harm() {
			harms++
		}
	}
	safe := slices.DeleteFunc(slices.Clone(f.Subjects), func(s string) bool {
		bad, tried := harmed[s]
		return bad || !tried
	})
	all = append(all, fmt.Sprintf("Items or money went wrong, or could have, in %d of %s that could happen.", harms,
		count(played, "finding")))
	if len(safe) > 0 {
		all = append(all, "Never harmed where these scenarios put their fault: "+listed(safe)+".")
	}
	return atMost(all)
}

const brokenMark = "!" // ends a cell in which a promise was broken

func extent(all []float64) string {
	least, most := fmt.Sprintf("%.1f", slices.Min(all)), fmt.Sprintf("%.1f", slices.Max(all))
	if least == most {
		return most
	}
	return least + " to " + most
}

func faultTable(f *findings.FaultTable) *Table {
	names := mapped(f.Scenarios, func(sc findings.ScenarioInfo) string { return sc.Name })
	t := NewTable(append([]string{"scheme"}, names...)...)
	found := map[[2]string]Cell{}
	for _, x := range f.Findings {
		text := x.Outcome()
		switch {
		case x.Verdict == verify.NotApplicable:
			text = none
		case x.Broken != "":
			text += " " + brokenMark
		}
		found[[2]string{x.Scenario, x.Subject}] = Cell{text, toneOf(x)}
	}
	for _, s := range f.Subjects {
		found := func(sc findings.ScenarioInfo) Cell { return found[[2]string{sc.Name, s}] }
		t.add(append(cells(s), mapped(f.Scenarios, found)...)...)
	}
	return t
}

// scenarioTable is what a scenario did to the schemes, the worst first; those with
// the same finding share a line.
func scenarioTable(found []findings.Finding) *Table {
	type line struct {
		findings.Finding
		schemes         []string
		leases, without []float64 // leases kept out, seconds without service; of each scheme
	}
	var lines []line
	for _, f := range found {
		subject, leases, without := f.Subject, f.Leases, f.SecondsWithoutService
		f.Subject, f.Leases, f.SecondsWithoutService, f.Gone = "", 0, 0, 0
		l := oneOf(&lines, line{Finding: f}, func(l line) bool { return l.Finding == f })
		l.schemes, l.leases, l.without = append(l.schemes, subject), append(l.leases, leases), append(l.without, without)
	}
	verdicts := verify.Verdicts()
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Compare(slices.Index(verdicts, b.Verdict), slices.Index(verdicts, a.Verdict))
	})
	t := NewTable("what happened", "others kept out", "to", "why").Wrapping("others kept out", "to", "why")
	// Schemes: the line with the most, if it has so many, says "all others"
	// instead of their names.
	const many = 5
	most := slices.MaxFunc(lines, func(a, b line) int { return cmp.Compare(len(a.schemes), len(b.schemes)) }).schemes
	for _, l := range lines {
		if len(lines) > 1 && len(most) >= many && l.schemes[0] == most[0] {
			l.schemes = []string{"all others"}
		}
		why, kept := l.Why, string(l.KeptOut)
		if without := extent(l.without); without != "0.0" {
			why += fmt.Sprintf("; without service for %s s", without)
		}
		if leases := extent(l.leases); leases != "0.0" {
			kept += " (" + leases + " leases)"
		}
		if l.Broken != "" {
			why += fmt.Sprintf("; BROKEN PROMISE: %q", l.Broken)
		}
		t.Add(l.Happened(), kept, strings.Join(l.schemes, ", "), why)
		tells := 0 // the column that is toned: what happened or, if others were kept out, how long
		if tone := toneOf(l.Finding); tone == awhile || tone == never {
			tells = 1
		}
		t.tone(tells, toneOf(l.Finding))
	}
	return t.without("")
}

// Explored is the report of searches: a table of all, and the shortest schedule to
// the first harm of each scheme.
func Explored(r *findings.Explorations) *Doc {
	harmed := map[string]bool{} // by scheme
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
		Facts: []string{"marketsim " + known(r.Version) + ". Taken for granted: " + r.Assumptions() + "."},
	}
	for _, e := range r.Broken() {
		d.Findings = append(d.Findings, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s.",
			e.Scheme, e.Broken, e.Program, e.Found()))
	}
	switch {
	case r.Judged && len(d.Findings) == 0:
		d.Findings = []string{"No promise was broken, within the bounds below."}
		if harms > 0 {
			d.Findings[0] += " A client that is stopped and outlives its lease breaks none: no lock that expires prevents it."
		}
	case r.Judged:
	case searched == 0:
		d.Findings = append(d.Findings, "Nothing can be concluded: no search came to its end.")
	case harms == 0:
		d.Findings = append(d.Findings, fmt.Sprintf("No harm was found in %s, within the bounds below.", searches(searched)))
	case searched > 1:
		d.Findings = append(d.Findings, fmt.Sprintf("Harm was found in %d of %s.", harms, searches(searched)))
	}
	if r.Judged {
		d.Title = "Judged: " + listed(slices.Sorted(maps.Keys(harmed)))
	}
	var safe []string
	for _, e := range r.Searches {
		if e.Concludes() && !harmed[e.Scheme] && !slices.Contains(safe, e.Scheme) {
			safe = append(safe, e.Scheme)
		}
	}
	if harms > 0 && len(safe) > 0 && !r.Judged {
		d.Findings = append(d.Findings, "Nothing was found against "+listed(safe)+".")
	}
	d.Findings = atMost(d.Findings)
	note := "The bounds of a harm are those of its shortest schedule; schedules says how many of all do harm. " +
		"\"Not searched\": without a preemption no client comes between two requests of another."
	if len(r.Promises) > 0 {
		t := NewTable("promise", "state", "why").Wrapping("why")
		for _, p := range r.Promises {
			t.Add(p.Promise, p.State, p.Why)
		}
		d.Blocks = append(d.Blocks, Block{Heading: "Promises", Table: t})
	}
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
func ExploredTable(all []findings.Exploration) *Table {
	t := NewTable("scheme", "program", "faults that strike", "found", "preemptions", "faults", "schedules").
		Wrapping("faults that strike", "found")
	for _, e := range all {
		if e.Why != "" {
			t.Add(e.Scheme, cmp.Or(e.Program, none), "", e.Found())
			continue
		}
		of, schedules, tone := "each kind", Number(float64(e.Schedules), metric.Plain), plain
		if len(e.Of) > 0 {
			of = strings.Join(e.Of, ", ")
		}
		if e.Harm != "" {
			schedules = Number(float64(e.Harmful), metric.Plain) + " of " + schedules
			tone = bad
		}
		t.Add(e.Scheme, e.Program, of, e.Found(), fmt.Sprint(e.Preemptions), fmt.Sprint(e.Faults), schedules)
		t.tone(3, tone)
	}
	t.Filters = exploredFilters(all)
	return t.without("", "each kind")
}

// exploredFilters choose among searches by scheme, program and harm, where they are more
// than a screen shows.
func exploredFilters(all []findings.Exploration) []Filter {
	const screen = 20 // rows
	if len(all) <= screen {
		return nil
	}
	harm := func(e findings.Exploration) string {
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

	return []Filter{
		{Label: "scheme", Values: mapped(all, func(e findings.Exploration) string { return e.Scheme })},
		{Label: "program", Values: mapped(all, func(e findings.Exploration) string { return e.Program })},
		{Label: "found", Values: mapped(all, harm)},
	}
}

// Schedules are the shortest schedules to the harms that were found, a figure each. Its
// name is the scheme, and where that has several figures the program and the harm.
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

// scheduleBlock is a harm with its shortest schedule, as a table and as a picture.
func scheduleBlock(e findings.Exploration, again string) Block {
	figure := schedule(e)
	head, rows := e.Diagram.Cells()
	t := NewTable(head...).Wrapping(head[1:]...)
	t.Rows = mapped(rows, func(row []string) []Cell { return cells(row...) })
	bounds := fmt.Sprintf("The shortest schedule has %s and %s.",
		count(e.Preemptions, "preemption"), count(e.Faults, "fault"))

	return Block{
		Heading:  figure.Title,
		Note:     append(slices.Clone(e.Diagram.End), bounds),
		Table:    t,
		Schedule: &figure,
		Again:    shown(again),
	}
}

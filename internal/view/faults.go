package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/findings"
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
	d.Facts = append(d.Facts, mapped(m.Scripts, stored.Script.String)...)
	if n := f.Kept(); n > 0 {
		d.Facts = append(d.Facts, count(n, "finding")+
			" kept from an earlier run, because this machine lacks what they need")
	}

	// A single finding is told whole below: a table of one cell would say it twice.
	if len(f.Findings) > 1 {
		note := "What happened to money and items, and how long others were kept out, in leases of the holder. " +
			brokenMark + ": the lock had promised otherwise. " + none + ": it cannot happen to this scheme."
		all := Block{Heading: "All findings", Table: faultTable(f), Map: true, Note: []string{note}}
		d.Blocks = append(d.Blocks, all)
	}

	// With Map the heading of column i links to block i: the table of all is block 0, and each
	// scenario has a block, even if it was not reached, in the order of the columns.
	for i, sc := range f.Scenarios {
		b := Block{Heading: fmt.Sprintf("%d. %s: %s", i+1, sc.Name, sc.Title), Note: []string{"Not reached."}}
		if found := f.Of(sc.Name); len(found) > 0 {
			b.Table = scenarioTable(found)
			b.Note = nil
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
	return atMost(append(all, harmFindings(f)...))
}

// harmFindings count the harm, and name the schemes that never did any.
func harmFindings(f *findings.FaultTable) []string {
	harmed := map[string]bool{} // by scheme, of those to which something could happen
	harms := 0
	played := 0
	for _, finding := range f.Findings {
		if finding.Harm == "" { // nothing was observed, or the file is an old one
			continue
		}
		played++
		if finding.Verdict.Harm() {
			harms++
		}
		harmed[finding.Subject] = harmed[finding.Subject] || finding.Verdict.Harm()
	}
	all := []string{fmt.Sprintf("Items or money went wrong, or could have, in %d of %s that could happen.",
		harms, count(played, "finding"))}

	safe := slices.DeleteFunc(slices.Clone(f.Subjects), func(scheme string) bool {
		bad, tried := harmed[scheme]
		return bad || !tried
	})
	if len(safe) > 0 {
		all = append(all, "Never harmed where these scenarios put their fault: "+listed(safe)+".")
	}
	return all
}

const brokenMark = "!" // ends a cell in which a promise was broken

// extent is from the least to the most: "1.0 to 2.5".
func extent(all []float64) string {
	least, most := fmt.Sprintf("%.1f", slices.Min(all)), fmt.Sprintf("%.1f", slices.Max(all))
	if least == most {
		return most
	}
	return least + " to " + most
}

// faultTable has a row for each scheme and a column for each scenario, in their order and even
// if it was not reached: a page links the heading of column i to block i, see Faults.
func faultTable(f *findings.FaultTable) *Table {
	names := mapped(f.Scenarios, func(sc findings.ScenarioInfo) string { return sc.Name })
	t := NewTable(append([]string{"scheme"}, names...)...)

	// A scheme need not have been played in each scenario: its cell then stays empty.
	type pair struct{ scenario, scheme string }
	found := map[pair]Cell{}
	for _, finding := range f.Findings {
		text := finding.Outcome()
		switch {
		case finding.Verdict == verify.NotApplicable:
			text = none
		case finding.Broken != "":
			text += " " + brokenMark
		}
		found[pair{finding.Scenario, finding.Subject}] = Cell{text, toneOf(finding)}
	}

	for _, scheme := range f.Subjects {
		row := cells(scheme)
		for _, scenario := range names {
			row = append(row, found[pair{scenario, scheme}])
		}
		t.add(row...)
	}
	return t
}

// toneOf is how a finding is shown: a broken promise before all else, then its verdict. One
// that has observed nothing is plain; a verdict that comes new belongs here, too.
func toneOf(f findings.Finding) Tone {
	switch {
	case f.Broken != "":
		return broken
	case f.Verdict.Harm():
		return bad
	}

	switch f.Verdict {
	case verify.Safe:
		return good
	case verify.StuckForTTL, verify.StuckUnbounded, verify.Failing:
		return awhile
	case verify.StuckForGood:
		return never
	}
	return plain
}

// A sameFinding is a finding that several schemes share, without what differs between them.
type sameFinding struct {
	findings.Finding
	schemes []string
	leases  []float64 // kept out, of each scheme
	without []float64 // seconds without service, of each scheme
}

// shared joins the findings that differ in their scheme and its numbers only, the worst first.
// They are compared with ==, so a field that each scheme has for itself is emptied before.
func shared(found []findings.Finding) (all []sameFinding) {
	for _, f := range found {
		common := f
		common.Subject = ""
		common.Leases = 0
		common.SecondsWithoutService = 0
		common.Gone = 0
		same := oneOf(&all, sameFinding{Finding: common}, func(s sameFinding) bool { return s.Finding == common })
		same.schemes = append(same.schemes, f.Subject)
		same.leases = append(same.leases, f.Leases)
		same.without = append(same.without, f.SecondsWithoutService)
	}

	verdicts := verify.Verdicts()
	slices.SortStableFunc(all, func(a, b sameFinding) int {
		return cmp.Compare(slices.Index(verdicts, b.Verdict), slices.Index(verdicts, a.Verdict))
	})
	return all
}

// scenarioTable is what a scenario did to the schemes, the worst first; those with
// the same finding share a row. found has one at least.
func scenarioTable(found []findings.Finding) *Table {
	t := NewTable("what happened", "others kept out", "to", "why").Wrapping("others kept out", "to", "why")
	rows := shared(found)
	// The row with the most schemes, if they are many, says "all others" instead of their
	// names. It is known by its first scheme, which no other row has: of a scenario there is one
	// finding for each scheme.
	const many = 5
	most := slices.MaxFunc(rows, func(a, b sameFinding) int { return cmp.Compare(len(a.schemes), len(b.schemes)) }).schemes
	for _, row := range rows {
		schemes := strings.Join(row.schemes, ", ")
		if len(rows) > 1 && len(most) >= many && row.schemes[0] == most[0] {
			schemes = "all others"
		}

		// An extent of 0.0 is none: nothing of this was measured.
		kept := string(row.KeptOut)
		if leases := extent(row.leases); leases != "0.0" {
			kept += " (" + leases + " leases)"
		}
		why := row.Why
		if without := extent(row.without); without != "0.0" {
			why += fmt.Sprintf("; without service for %s s", without)
		}
		if row.Broken != "" {
			why += fmt.Sprintf("; BROKEN PROMISE: %q", row.Broken)
		}
		t.Add(row.Happened(), kept, schemes, why)

		tone := toneOf(row.Finding)
		column := 0 // what happened or, if others were kept out, how long
		if tone == awhile || tone == never {
			column = 1
		}
		t.tone(column, tone)
	}
	return t.withoutIdleColumns("")
}

package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// Run is the report of a run: the book's tables and claims if it was asked for them, then all rows, what went wrong in
// them, and what they cost; or of a sweep, what it found.
func Run(res *result.Run) *Document {
	d := &Document{head: runHead(res), findings: Findings(res), records: records(res), stored: res, run: res}
	if len(res.Manifest.Config.Reproduces) > 0 {
		d.sections = reproduction(res)
	}
	if len(res.Claims) > 0 && !isSweep(res) {
		d.sections = append(d.sections, claimSection(res))
	}
	if len(res.Rows) == 0 {
		d.sections = append(d.sections, section{title: "Rows", lines: []string{"No row was measured."}})
		return d
	}
	if isSweep(res) {
		d.sections = append(d.sections, sweepSections(res)...)
		return d
	}
	seen, rows := look(res), lines(res)
	noted := notes(res.Rows)
	if res.Planned() > 1 {
		noted = roundNotes(res.Rows)
	}
	if note := rankNote(rows, "p99", 990); note != "" {
		noted = append(noted, note)
	}
	details := section{
		title:   "Details",
		lines:   []string{"gone: someone else was first. given up: time spent on orders that were refused."},
		table:   rowTable(res, rows, detailsTable),
		meaning: detailsMeaning(seen),
	}
	if note := rankNote(rows, "p99.9", 999); note != "" {
		details.notes = []string{note}
	}
	d.sections = append(d.sections, section{title: joined(": ", "Rows", medians(res)), table: rowTable(res, rows, rowsTable),
		notes: noted, meaning: rowsMeaning(seen)})
	if seen.open() {
		d.sections = append(d.sections, openSection(res, rows))
	}
	d.sections = append(d.sections,
		details,
		section{
			title: "Cost",
			lines: []string{"For each purchase: what orders exchanged with the market's server and with servers that only locks use, " +
				"and the CPU time (us) of the market's server and of this client. in vain: for orders that were refused and tries that " +
				"were thrown away. background: renewals, subscriptions and heartbeats of all workers, in a second."},
			table:   rowTable(res, rows, costTable),
			notes:   commandNotes(rows),
			meaning: costMeaning(seen),
		})
	d.sections = append(d.sections, sometimes(res, rows, seen)...)
	if len(res.Comparisons) > 0 {
		compared := comparisonSection(res.Comparisons, margin(res))
		if seen.embedded() {
			compared.meaning = seen.undecidable()
		}
		d.sections = append(d.sections, compared)
	}
	return d
}

// sometimes are the sections for which not every run has numbers.
func sometimes(res *result.Run, rows [][]result.Row, seen view) (sections []section) {
	if slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.Tries != nil && r.Tries.Max > 1 }) {
		sections = append(sections, section{
			title: "Tries",
			lines: []string{"How often a purchase was tried until it was made: once, and once more for each transaction that " +
				"was aborted and for each attempt that did not get a lock."},
			table:   rowTable(res, rows, triesTable),
			meaning: triesMeaning(seen),
		})
	}
	if slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.TimeMS != nil }) {
		sections = append(sections, section{
			title:   "Time",
			lines:   []string{"Where the mean time of a purchase goes: waiting for locks, holding them, tries thrown away, the rest."},
			table:   rowTable(res, rows, timeTable),
			meaning: timeMeaning(seen),
		})
	}
	if slices.ContainsFunc(res.Rows, func(r result.Row) bool { return len(r.Nodes) > 0 }) {
		sections = append(sections, nodesSection(res, rows, seen))
	}
	if slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.Fairness != nil }) {
		sections = append(sections, section{
			title: "Buyers and client",
			lines: []string{"Jain's index: 1 if all buyers bought the same. longest gap: how long a buyer went without a purchase. " +
				"client: this process; its part of the CPU time of all cores, how much of that went into garbage collection (GC), and how " +
				"long its goroutines waited for a core. client is limit: a faster client would have bought more. busy buyers and rate x " +
				"time should be the same, by Little's law."},
			table:   rowTable(res, rows, loadTable),
			meaning: loadMeaning(seen),
		})
	}
	return sections
}

// margin is what counts as no difference in a run.
func margin(res *result.Run) float64 {
	if m := res.Manifest.Config.Margin; m != nil {
		return *m
	}
	return 0
}

// runHead says what was measured where. What would make a reader distrust the numbers comes first.
func runHead(res *result.Run) []string {
	m := res.Manifest
	return append(runWarnings(res),
		fmt.Sprintf("marketsim %s on %s %s (%s), %s", known(m.Version), known(m.Server), known(m.ServerVersion),
			known(m.Backend), joined(", ", clean(m.Go), clean(m.OS), clean(m.Kernel))),
		fmt.Sprintf("%s, %s; %s s a row after %s s of warm-up%s; seed %d%s%s", known(m.CPU), count(int64(m.CPUs), "CPU"),
			seconds(m.Config.DurationSeconds), seconds(m.Config.WarmupSeconds), rounds(res), m.Seed,
			wallets(m.Config.Wallets)+workload(m.Config.Workload), started(m.Started)))
}

// runWarnings says what would make a reader distrust a run.
func runWarnings(res *result.Run) (lines []string) {
	switch res.Status {
	case result.Complete:
	case result.Incomplete:
		lines = append(lines, "INCOMPLETE: the environment failed; this is what was measured until then.")
	case result.Interrupted:
		lines = append(lines, "INTERRUPTED by the user: this is what was measured until then.")
	default:
		lines = append(lines, fmt.Sprintf("STATUS %q: not known to this marketsim.", clean(string(res.Status))))
	}
	if wrong := auditsFailed(res.Rows); wrong > 0 {
		lines = append(lines, fmt.Sprintf("AUDIT FAILED in %s of %s: items or money went wrong.",
			thousands(int64(wrong)), count(int64(len(res.Rows)), "row")))
	}
	if res.Manifest.Backend == "embedded" {
		lines = append(lines, "EMBEDDED MINIREDIS: these are not Redis's numbers.")
	}
	return lines
}

func auditsFailed(rows []result.Row) int {
	n := 0
	for _, r := range rows {
		if r.Audit.Done && !r.Audit.OK {
			n++
		}
	}
	return n
}

// wallets says so when buyers share accounts, because that changes what they contend for.
func wallets(n int) string {
	if n == 0 {
		return ""
	}
	return "; all buyers share " + count(int64(n), "account")
}

// workload says in what the market of all rows differs from the book's.
func workload(w result.Workload) string {
	if text := w.String(); text != "" {
		return "; workload " + text
	}
	return ""
}

func started(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "; started " + t.UTC().Format("2006-01-02 15:04 UTC")
}

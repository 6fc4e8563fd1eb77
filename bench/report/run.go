package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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
			wallets(m.Config.Wallets)+workload(m.Config.Workload)+loadMachines(m.Config.LoadMachines), started(m.Started)))
}

// loadMachines says of how many a run was, if of several: its head is about the one that reports.
func loadMachines(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("; made together by %d load machines, of which this one reports", n)
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

// claimed is whose claims a run was judged by.
func claimed(res *result.Run) string {
	switch {
	case isSweep(res):
		return "literature"
	case ofBackoff(res):
		return "blog"
	}
	return "book"
}

// claimSection is the claims of what was reproduced, with how each was judged.
func claimSection(res *result.Run) section {
	of := claimed(res)
	t := &table{header: headings(6, "id", "claim", of, "measured", "holds if", "holds")}
	summary, widest := tally(res.Claims, of), max(len("measured"), len(of))
	var prose [][]cell
	for _, line := range wrap(summary, Width) {
		prose = append(prose, cells(line))
	}
	for _, c := range res.Claims {
		verdict := holds(c)
		if complete := len(res.Rounds()); c.Verdict == result.NotDecided && complete < res.Planned() {
			verdict.text += fmt.Sprintf(" (%d of %d rounds)", complete, res.Planned())
		}
		t.rows = append(t.rows, append(cells(fmt.Sprint(c.ID), clean(c.Text), clean(c.Published), clean(c.Measured),
			clean(c.Tolerance)), verdict))
		prose = append(prose, append(cells(fmt.Sprintf("%d. %s: ", c.ID, clean(c.Text))), verdict))
		for _, part := range []struct{ name, text string }{
			{of, c.Published}, {"measured", c.Measured}, {"holds if", c.Tolerance},
		} {
			label := part.name
			for _, line := range wrap(clean(part.text), Width-len("     ")-widest) {
				prose = append(prose, cells(fmt.Sprintf("   %-*s  %s", widest, label, line)))
				label = ""
			}
		}
	}
	return section{title: "Claims", lines: []string{summary}, table: t, prose: prose, meaning: claimsMeaning(res.Claims, of)}
}

// holds says how a claim was judged.
func holds(c result.Claim) cell {
	basis := ""
	if c.Verdict == result.OneTrial {
		basis = " (one trial)"
	}
	switch {
	case c.Holds != nil && *c.Holds:
		return cell{"yes" + basis, good}
	case c.Holds != nil:
		return cell{"NO" + basis, bad}
	case c.Verdict == result.NotDecided:
		return cell{text: "not decided"}
	}
	return cell{text: "not judged"}
}

// tally counts how the claims were judged: "Of 11 claims of the book: 6 hold, 1 does not, 1 not decided, 3 not
// judged." What nobody has is left out, but for those that hold and those that do not.
func tally(claims []result.Claim, of string) string {
	var yes, no, undecided, unjudged int
	basis := ""
	for _, c := range claims {
		switch {
		case c.Holds != nil && *c.Holds:
			yes++
		case c.Holds != nil:
			no++
		case c.Verdict == result.NotDecided:
			undecided++
		default:
			unjudged++
		}
		if c.Verdict == result.OneTrial {
			basis = " In one trial, no interval."
		}
	}
	text := fmt.Sprintf("Of %s of the %s: %d %s, %d %s", count(int64(len(claims)), "claim"), of,
		yes, agree(yes, "holds", "hold"), no, agree(no, "does not", "do not"))
	if undecided > 0 {
		text += fmt.Sprintf(", %d not decided", undecided)
	}
	if unjudged > 0 || undecided == 0 {
		text += fmt.Sprintf(", %d not judged", unjudged)
	}
	return text + ". The tolerances were set beforehand." + basis
}

// notes lists what is wrong or strange about the rows. A note that several rows share is given once.
func notes(rows []result.Row) []string {
	var texts []string
	about := map[string][]string{}
	trials := severalTrials(rows)
	for _, r := range rows {
		name := clean(r.Name())
		if trials {
			name += fmt.Sprintf(" trial %d", r.Trial)
		}
		for _, text := range rowNotes(r) {
			if about[text] == nil {
				texts = append(texts, text)
			}
			about[text] = append(about[text], name)
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(about[text], ", ") + ": " + text
	}
	return texts
}

func severalTrials(rows []result.Row) bool {
	return slices.ContainsFunc(rows, func(r result.Row) bool { return r.Trial > 1 })
}

func rowNotes(r result.Row) []string {
	var texts []string
	if r.Status != result.Complete {
		texts = append(texts, fmt.Sprintf("%s after %s s", clean(string(r.Status)), seconds(r.Seconds)))
	}
	if r.Chaos != nil {
		texts = append(texts, chaosNote(r))
	}
	for _, w := range r.Warnings {
		texts = append(texts, "warning: "+clean(w))
	}
	for _, p := range r.Audit.Problems {
		texts = append(texts, "audit: "+clean(p))
	}
	if r.Unknown != 0 || r.Audit.Applied != 0 || r.Audit.NotApplied != 0 {
		texts = append(texts, fmt.Sprintf("%s of unknown outcome; the audit of the whole row found %s applied and %s not",
			count(r.Unknown, "operation"), thousands(r.Audit.Applied), thousands(r.Audit.NotApplied)))
	}
	if g := r.Audit.Gone; g != nil {
		texts = append(texts, fmt.Sprintf("a replica took the place of the market's master: %s that were acknowledged are gone, with %s "+
			"and %s; Redis replicates after it has answered, which is not the strategy's doing", count(g.Purchases, "purchase"),
			count(g.Listings, "listing"), count(g.Items, "new item")))
	}
	if r.Browsers != 0 {
		texts = append(texts, fmt.Sprintf("%s looked at %s listings in %s each on average: %s",
			count(int64(r.Browsers), "browser"), thousands(r.Browsed), mean(r.BrowseMS), count(r.TornReads, "torn read")))
	}
	if r.LeasesLost != 0 {
		texts = append(texts, count(r.LeasesLost, "lock")+" found lost when released")
	}
	if r.FailedReleases != nil && *r.FailedReleases != 0 {
		texts = append(texts, count(*r.FailedReleases, "lock")+" could not be released, and may have kept others waiting")
	}
	if other := refusals(r.Refused); other != "" {
		texts = append(texts, "refused: "+other)
	}
	return texts
}

// mostCommands is how many commands are named of those that took the server longest.
const mostCommands = 5

// commandNotes says in which commands the server spent its time on each purchase.
func commandNotes(lines [][]result.Row) []string {
	var notes []string
	for _, group := range lines {
		r := group[0]
		if r.Cost == nil || len(r.Cost.Commands) == 0 || len(group) > 1 {
			continue
		}
		us := r.Cost.Commands
		names := slices.SortedFunc(maps.Keys(us), func(a, b string) int {
			return cmp.Or(cmp.Compare(us[b], us[a]), cmp.Compare(a, b))
		})
		var parts []string
		for _, name := range names[:min(mostCommands, len(names))] {
			parts = append(parts, clean(name)+" "+number(us[name]))
		}
		notes = append(notes, fmt.Sprintf("%s, server us by command: %s", clean(r.Name()), strings.Join(parts, ", ")))
	}
	return notes
}

// chaosNote says which faults a row of a chaos run went through.
func chaosNote(r result.Row) string {
	c, verb := r.Chaos, "struck by"
	if c.Survived() && r.Audit.Done && r.Audit.OK {
		verb = "items and coins survived"
	} else if c.Market != "" {
		verb = "items and coins " + clean(string(c.Market)) + ", " + verb
	}
	text := fmt.Sprintf("%s %s in %s", verb, count(c.Struck(), "fault"), count(int64(c.Rounds), "round"))
	for _, finding := range []struct {
		times *int64
		what  string
	}{
		{c.HeldByTwo, "a lock was held by two %s"}, {c.TokensNotGrown, "fencing tokens did not grow %s"},
	} {
		if finding.times != nil && *finding.times > 0 {
			text += ", and " + fmt.Sprintf(finding.what, count(*finding.times, "time"))
		}
	}
	if kinds := counted(c.Faults); kinds != "" {
		text += ": " + kinds
	}
	if c.Pool > 0 {
		text += fmt.Sprintf("; all workers shared %s that opened with %s", count(int64(c.Pool), "account"),
			count(c.Funds, "coin"))
	}
	text += fmt.Sprintf("; workers connected anew %s", count(c.Reopened, "time"))
	if c.FreedLocks > 0 {
		text += fmt.Sprintf("; %s that nobody held any more removed between rounds", count(c.FreedLocks, "lock key"))
		if c.BlockedSeconds != nil {
			text += fmt.Sprintf(", until when nobody could trade for %s s in all", seconds(*c.BlockedSeconds))
		}
	}
	if c.LeasesOutlasted != nil && *c.LeasesOutlasted > 0 {
		text += fmt.Sprintf("; %s outlasted a lease: %s found lost, %s refused", count(*c.LeasesOutlasted, "pause"),
			count(*c.LeasesLost, "lease"), count(*c.StaleRefused, "stale write"))
	}
	for _, not := range c.NotTested {
		text += "; NOT TESTED: " + clean(not)
	}
	return text
}

// refusals lists the reasons that have no column of their own.
func refusals(byReason map[string]int64) string {
	others := maps.Clone(byReason)
	maps.DeleteFunc(others, func(reason string, n int64) bool {
		return n == 0 || reason == "not_listed" || reason == "contended"
	})
	return counted(others)
}

// counted lists counts by the name of what was counted.
func counted(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, clean(name)+" "+thousands(counts[name]))
	}
	return strings.Join(parts, ", ")
}

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// A NamedRun is a run with the name by which a reader knows it, such as its folder.
type NamedRun struct {
	Name string
	Run  *runs.Run
}

// Run is the report of a run: its figures, then the book's tables and claims, the best of
// a sweep, what is faster, what each of several masters did, and all rows.
func Run(run *runs.Run) *Doc {
	compared := compare.Of(run)
	checks := compare.CheckThresholds(run)
	d := &Doc{Title: title(run), Facts: facts(run), Findings: runFindings(run, compared, checks)}
	for _, f := range Figures(run) {
		d.Blocks = append(d.Blocks, Block{Heading: f.Title, Note: []string{f.Note}, Figure: &f})
	}
	d.Blocks = slices.Concat(d.Blocks, bookBlocks(run), sweepBlocks(run, compared), thresholdBlocks(checks),
		comparisonBlocks(run, compared), scalingBlocks(run), rowBlocks(run), masterBlocks(run))
	return d
}

// title says what the run was made for. A sweep has a margin, too, so its case comes before
// that of a comparison.
func title(run *runs.Run) string {
	c := run.Manifest.Config
	strategies := listed(mapped(c.Subjects(), inWords))
	switch {
	case len(c.Axes) > 0:
		names := mapped(c.Axes, func(a runs.Axis) string { return string(a.Name) })
		return fmt.Sprintf("Sweep over %s: %s", listed(names), strategies)
	case len(c.Reproduces) > 0:
		if source := reference.SourceOf(run); source != reference.Book {
			return bookTitle(run) + ", measured"
		}
		return "Tables " + listed(c.Reproduces) + " of Redis in Action, measured"
	case c.Margin != nil:
		return "Compared: " + strategies
	}
	return "Measured: " + strategies
}

// facts say what was measured where.
func facts(run *runs.Run) []string {
	m := run.Manifest
	platform := slices.DeleteFunc([]string{m.Go, m.OS, m.Kernel}, func(s string) bool { return s == "" })
	server := known(m.Server) + " " + known(m.ServerVersion)
	if len(m.Servers) > 0 {
		server = listed(mapped(m.Servers, func(s runs.Server) string {
			return fmt.Sprintf("%s: %s %s", s.Name, known(s.Product), known(s.Version))
		}))
	}
	where := fmt.Sprintf("marketsim %s on %s (%s); %s", known(m.Version), server, known(m.Backend),
		strings.Join(platform, ", "))

	// What is needed to measure the same again.
	how := fmt.Sprintf("%s, %s; %s a row after %s of warm-up; %s; seed %d", known(m.CPU), count(m.CPUs, "CPU"),
		seconds(m.Config.DurationSeconds), seconds(m.Config.WarmupSeconds), count(max(1, m.Config.Trials), "round"), m.Seed)
	if !m.Started.IsZero() {
		how += "; started " + m.Started.UTC().Format("2006-01-02 15:04 UTC")
	}
	if m.Config.SLOMS > 0 {
		how += "; orders are late after " + Number(m.Config.SLOMS, runs.Milliseconds)
	}

	all := []string{where, how}
	for _, s := range m.Servers {
		all = append(all, "Configuration of "+s.Name+": "+strings.Join(paired(s.Config), ", "))
	}
	// Of several servers, ServerConfig repeats that of the first.
	if len(m.Servers) == 0 && len(m.ServerConfig) > 0 {
		all = append(all, "Server's configuration: "+strings.Join(paired(m.ServerConfig), ", "))
	}
	if len(m.Config.LockServers) > 0 {
		all = append(all, "Servers of locks: "+strings.Join(paired(m.Config.LockServers), ", "))
	}
	all = append(all, mapped(m.Scripts, stored.Script.String)...)
	if m.Command != "" {
		all = append(all, m.Command)
	}
	return all
}

// paired are the names in a map, sorted, each with its value.
func paired(values map[string]string) []string {
	names := slices.Sorted(maps.Keys(values))
	return mapped(names, func(name string) string { return name + " " + values[name] })
}

const mostFindings = 3 // how many stand at the head of a report

func atMost(findings []string) []string { return findings[:min(len(findings), mostFindings)] }

// runFindings are what a reader must know first: which thresholds are not met, what went
// wrong, then what was found. Their order decides what is shown, as atMost drops the last.
func runFindings(run *runs.Run, compared []compare.Comparison, checks []compare.Check) []string {
	all := slices.Concat(unmet(checks), wrong(run), met(checks))
	disturbance := disturbed(run, compared)
	if disturbance != "" {
		all = append(all, disturbance)
	}
	if len(run.Claims) > 0 {
		all = append(all, claimed(run))
	}

	all = append(all, scaled(run)...)
	undecided := strings.HasPrefix(disturbance, notDecided) // which says all that fastest would
	if text := fastest(run, compared); text != "" && !undecided {
		all = append(all, text)
	}

	// wrong has found no row that is not complete, was not audited or failed its audit.
	if len(all) == 0 {
		all = []string{"All audits passed: money and items are right in " + count(len(run.Rows), "row") + "."}
	}
	return atMost(all)
}

// wrong is what must be known before any number is read: failed audits, an early end, rows
// that are not judged, a server that is not Redis.
func wrong(run *runs.Run) (all []string) {
	failedAudits := 0
	complete := 0
	for _, r := range run.Rows {
		if r.Audit.Done && !r.Audit.OK {
			failedAudits++
		}
		if r.Status == stored.Complete {
			complete++
		}
	}

	if failedAudits > 0 {
		all = append(all, fmt.Sprintf("AUDIT FAILED in %d of %s: items or money went wrong.",
			failedAudits, count(len(run.Rows), "row")))
	}
	if len(run.Rows) == 0 {
		all = append(all, "No row was measured.")
	}

	// Where failed audits or an early end are counted, a list of these rows would repeat it.
	if run.Status != stored.Complete {
		planned := len(run.Manifest.Config.Points) * max(1, run.Manifest.Config.Trials)
		all = append(all, fmt.Sprintf("The run was %s after %d of %s.",
			ended(string(run.Status)), complete, count(planned, "row")))
	} else if unfit := failed(run); failedAudits == 0 && len(unfit) > 0 {
		all = append(all, "Not to be judged: "+listed(unfit)+".")
	}
	if run.Manifest.Backend == "embedded" { // the text of backend.OriginEmbedded
		all = append(all, "The server was embedded miniredis: these are not Redis's numbers.")
	}
	return all
}

// notDecided begins what disturbed returns if nothing is decided: runFindings knows it by that.
const notDecided = "Not decided: "

// disturbed says what other processes took of the machine from rows that are not judged
// for it, and whether anything is decided in spite of that; empty: from no row too much.
func disturbed(run *runs.Run, compared []compare.Comparison) string {
	var shares []float64
	for i := range run.Rows {
		if took := run.Rows[i].Disturbed(); took > 0 {
			shares = append(shares, took)
		}
	}
	if len(shares) == 0 {
		return ""
	}

	disturbed := fmt.Sprintf("%s in %d of %s", compare.Disturbance(shares), len(shares), count(len(run.Rows), "row"))
	known := func(c compare.Comparison) bool { return c.Verdict != compare.Undecided }
	judged := func(c runs.Claim) bool { return c.Verdict != runs.NotJudged && c.Verdict != runs.NotDecided }
	switch {
	case len(compared)+len(run.Claims) == 0:
		return "Not to be relied on: " + disturbed + "."
	case slices.ContainsFunc(compared, known), slices.ContainsFunc(run.Claims, judged):
		return "Left out of what is judged: rounds in which " + disturbed + "."
	}
	return notDecided + disturbed + "."
}

// fastest says how each strategy compares with the first or, in a sweep, which is known
// to be faster than all others at which places; or why nothing is decided. A strategy
// that is there twice, to be compared with itself, counts once.
func fastest(run *runs.Run, all []compare.Comparison) string {
	if len(all) == 0 {
		return ""
	}

	// What all comparisons have for a reason, such as missing rounds, is told once.
	why := all[0].Reason
	if why != "" && !slices.ContainsFunc(all, func(c compare.Comparison) bool { return c.Reason != why }) {
		return "Nothing is decided: " + inWords(why) + "."
	}

	// Comparisons with a repetition are left out, unless there are no others.
	repeats := func(c compare.Comparison) bool { return strings.Contains(c.A+c.B, "#") }
	if others := slices.DeleteFunc(slices.Clone(all), repeats); len(others) > 0 {
		all = others
	}
	config := run.Manifest.Config
	if len(config.Axes) > 0 {
		return fasterThanAll(run, all)
	}

	var sentences []string // one for each metric, and each with which others are compared
	for len(all) > 0 {
		alike := func(c compare.Comparison) bool { return c.Metric.Name == all[0].Metric.Name && c.B == all[0].B }
		sentences = append(sentences, against(kept(all, alike), config.Places()))
		all = kept(all, func(c compare.Comparison) bool { return !alike(c) })
	}
	return strings.Join(sentences, " ")
}

// kept are those for which a function is true.
func kept[T any](all []T, is func(T) bool) (some []T) {
	for _, one := range all {
		if is(one) {
			some = append(some, one)
		}
	}
	return some
}

// fasterThanAll names, for each strategy of a sweep, the places at which every strategy
// with which it was compared is known to be slower. A sweep compares purchases/s alone: by
// another metric no verdict is Faster, and each strategy would have a rival.
func fasterThanAll(run *runs.Run, all []compare.Comparison) string {
	type entry struct{ place, strategy string }
	rivals := map[entry]bool{} // of what was compared: some strategy is not known to be slower
	for _, c := range all {
		a := entry{c.Place, c.A}
		b := entry{c.Place, c.B}
		rivals[a] = rivals[a] || c.Verdict != compare.Faster
		rivals[b] = rivals[b] || c.Verdict != compare.Slower
	}

	var parts []string
	for _, s := range run.Manifest.Config.Subjects() {
		var best []string
		for _, place := range run.Manifest.Config.Places() {
			if rival, compared := rivals[entry{place, s}]; compared && !rival {
				best = append(best, place)
			}
		}
		if len(best) > 0 {
			parts = append(parts, inWords(s)+" at "+listed(best))
		}
	}
	return "Known to be faster than all others: " + cmp.Or(strings.Join(parts, "; "), "none") + "."
}

// against says how each strategy compares with the first, and where, if not at every place.
func against(all []compare.Comparison, places []string) string {
	if len(all) == 1 {
		c := all[0]
		whose, that := "", ""
		if !c.OfPurchases() {
			whose, that = c.Metric.Short+" of ", "that of "
		}
		return fmt.Sprintf("At %s %s%s is %s %s%s%s.",
			c.Place, whose, inWords(c.A), verdictOf(c), that, inWords(c.B), times(c))
	}

	// Every Conclusion is in this list: a strategy with another one would be left out.
	var parts []string
	for _, verdict := range []compare.Conclusion{
		compare.Faster, compare.Slower, compare.Lower, compare.Higher, compare.NoDifference, compare.Undecided,
	} {
		if names := withVerdict(verdict, all, places); len(names) > 0 {
			parts = append(parts, string(verdict)+": "+listed(names))
		}
	}
	metric := ""
	if !all[0].OfPurchases() {
		metric = all[0].Metric.Short + " is "
	}
	return "Against " + inWords(all[0].B) + " " + metric + strings.Join(parts, "; ") + "."
}

// withVerdict are the strategies that have a verdict somewhere, in their order, and where,
// if not at every place. All comparisons are by one metric and with one B, as fastest picks them:
// each strategy then has a place once, and as many places as there are mean every one.
func withVerdict(verdict compare.Conclusion, all []compare.Comparison, places []string) (names []string) {
	at := map[string][]string{} // places, by strategy
	for _, c := range all {
		if c.Verdict != verdict {
			continue
		}
		if at[c.A] == nil {
			names = append(names, c.A)
		}
		at[c.A] = append(at[c.A], c.Place)
	}

	for i, name := range names {
		names[i] = inWords(name)
		if len(at[name]) < len(places) {
			names[i] += " at " + listed(at[name])
		}
	}
	return names
}

// claimed counts how the claims were judged: "8 of 12 claims of the book hold;
// claim 7 does not; claims 2 and 3 are not decided." A run of which none can be judged says
// nothing about them.
func claimed(run *runs.Run) string {
	ids := map[runs.Judgment][]string{}
	for _, c := range run.Claims {
		ids[c.Verdict] = append(ids[c.Verdict], fmt.Sprint(c.ID))
	}

	whose := " of the book"
	if source := reference.SourceOf(run); source != "" && source != reference.Book {
		whose = "" // the book's locks are not what this run measured
	}
	if len(ids[runs.NotJudged]) == len(run.Claims) {
		return "No claim" + whose + " is judged: the table of claims says why."
	}

	text := fmt.Sprintf("%d of %s%s hold", len(ids[runs.Holds]), count(len(run.Claims), "claim"), whose)
	// Each Judgment is told of: Holds above, and the others here.
	for _, v := range []struct {
		verdict   runs.Judgment
		one, some string
	}{
		{runs.InEvery, "holds in every round", "hold in every round"},
		{runs.DoesNot, "does not", "do not"},
		{runs.NotDecided, "is not decided", "are not decided"},
		{runs.NotJudged, "is not judged", "are not judged"},
	} {
		these := ids[v.verdict]
		if len(these) == 0 {
			continue
		}
		text += fmt.Sprintf("; %s %s %s", english.PluralWord(len(these), "claim", "claims"),
			english.WordSeries(these, "and"), english.PluralWord(len(these), v.one, v.some))
	}
	return text + "."
}

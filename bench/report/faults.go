package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// Faults is the report of what scenarios found: scenario by scenario, then a matrix of subjects and scenarios.
func Faults(res *result.Faults) *Document {
	d := &Document{head: faultsHead(res), findings: FaultFindings(res), records: findings(res), stored: res}
	for i, sc := range res.Scenarios {
		found := res.Of(sc.Name)
		s := scenarioSection(groups(found))
		s.meaning = scenarioMeaning(found)
		s.title = fmt.Sprintf("%d. %s: %s", i+1, clean(sc.Name), clean(sc.Title))
		d.sections = append(d.sections, s)
	}
	d.sections = append(d.sections, matrix(res)...)
	return d
}

// faultsHead says what was run where. What would make a reader distrust it comes first.
func faultsHead(res *result.Faults) []string {
	m := res.Manifest
	return append(faultsWarnings(res),
		fmt.Sprintf("marketsim %s on %s %s (%s), %s", known(m.Version), known(m.Server), known(m.ServerVersion),
			known(m.Backend), joined(", ", clean(m.Go), clean(m.OS))),
		fmt.Sprintf("%s, %s: %s", count(int64(len(res.Scenarios)), "scenario"), count(int64(len(res.Subjects)), "subject"),
			tallied(res.Findings, outcomes(), outcome)),
		"others kept out: "+tallied(res.Findings, keptOuts(), keptOut))
}

// faultsWarnings says what would make a reader distrust findings.
func faultsWarnings(res *result.Faults) (lines []string) {
	cells := len(res.Scenarios) * len(res.Subjects)
	found := fmt.Sprintf("this is what was found until then, %d of %s.", res.Found(), count(int64(cells), "finding"))
	switch res.Status {
	case result.Incomplete:
		lines = append(lines, "INCOMPLETE: the environment failed; "+found)
	case result.Interrupted:
		lines = append(lines, "INTERRUPTED by the user: "+found)
	}
	for _, f := range res.Broken() {
		lines = append(lines, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s, %s.",
			clean(f.Subject), clean(f.Broken), clean(f.Scenario), f.Verdict, clean(f.Why)))
	}
	if res.Manifest.Backend == "embedded" {
		lines = append(lines, "EMBEDDED MINIREDIS: this is not Redis's behaviour.")
	}
	return lines
}

// outcome says what happened to money and items: the harm, or why there is none to tell. Results that hold no harm tell
// their verdict.
func outcome(f result.Finding) string {
	switch f.Harm {
	case "":
		return string(f.Verdict)
	case result.NoHarm:
		return noHarm
	}
	return string(f.Harm)
}

// noHarm is result.NoHarm where it stands alone.
const noHarm = "no harm"

// outcomes lists them, the worst first, and not applicable last: nothing is to be learnt there.
func outcomes() []string {
	var all []string
	for _, h := range result.Harms() {
		all = append(all, outcome(result.Finding{Harm: h}))
	}
	for _, v := range []result.Verdict{result.Safe, result.StuckForTTL, result.StuckUnbounded, result.StuckForGood} {
		all = append(all, string(v))
	}
	all = append(all, string(result.Stopped), string(result.Unavailable), string(result.NotApplicable))
	slices.Reverse(all[:len(result.Harms())])
	return all
}

// keptOut says how long others were kept out.
func keptOut(f result.Finding) string { return cmp.Or(string(f.KeptOut), none) }

// keptOuts lists that, the longest first.
func keptOuts() (all []string) {
	for _, k := range slices.Backward(result.KeptOuts()) {
		all = append(all, string(k))
	}
	return all
}

// tallied counts the findings by what is said of them: "2 sold twice, 10 no harm".
func tallied(found []result.Finding, order []string, of func(result.Finding) string) string {
	times := map[string]int64{}
	for _, f := range found {
		times[of(f)]++
	}
	var parts []string
	for _, what := range order {
		if times[what] > 0 {
			parts = append(parts, thousands(times[what])+" "+what)
		}
	}
	return known(strings.Join(parts, ", "))
}

// findings are the lines of the CSV, the names of the columns first.
func findings(res *result.Faults) [][]string {
	all := [][]string{{"scenario", "subject", "verdict", "harm", "kept_out", "why", "broken_promise", "gone",
		"seconds_without_service"}}
	for _, f := range res.Findings {
		all = append(all, []string{clean(f.Scenario), clean(f.Subject), string(f.Verdict),
			cmp.Or(string(f.Harm), none), keptOut(f), clean(f.Why), clean(f.Broken), strconv.Itoa(f.Gone),
			strconv.FormatFloat(f.SecondsWithoutService, 'f', -1, 64)})
	}
	return all
}

// A group is the subjects to which a scenario did the same.
type group struct {
	result.Finding // without its subject; the shortest time without service
	subjects       []string
	longest        float64 // seconds without service
}

// groups sorts the findings of one scenario, the worst first, and what did not happen last.
func groups(found []result.Finding) []group {
	var all []group
	for _, f := range found {
		subject := clean(f.Subject)
		f.Subject = ""
		i := slices.IndexFunc(all, func(g group) bool {
			g.SecondsWithoutService = f.SecondsWithoutService
			return g.Finding == f
		})
		if i < 0 {
			i = len(all)
			all = append(all, group{Finding: f})
		}
		g := &all[i]
		g.subjects = append(g.subjects, subject)
		g.SecondsWithoutService = min(g.SecondsWithoutService, f.SecondsWithoutService)
		g.longest = max(g.longest, f.SecondsWithoutService)
	}
	harms, keeps := outcomes(), result.KeptOuts()
	slices.SortStableFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(slices.Index(harms, outcome(a.Finding)), slices.Index(harms, outcome(b.Finding))),
			cmp.Compare(slices.Index(keeps, b.KeptOut), slices.Index(keeps, a.KeptOut)))
	})
	return outside(all)
}

// many is from how many subjects on "all others" is said of those to whom a scenario cannot happen.
const many = 5

// outside makes one group of all to whom the scenario cannot happen, with each reason behind the names to which it
// applies. The largest of these groups is called "all others", because every other subject is named.
func outside(all []group) []group {
	first := slices.IndexFunc(all, func(g group) bool { return g.Verdict == result.NotApplicable })
	if first < 0 {
		return all
	}
	reasons := slices.Clone(all[first:])
	slices.SortStableFunc(reasons, func(a, b group) int { return cmp.Compare(len(a.subjects), len(b.subjects)) })
	if last := &reasons[len(reasons)-1]; len(last.subjects) >= many {
		last.subjects = []string{"all others"}
	}
	var told []string
	for _, r := range reasons {
		told = append(told, fmt.Sprintf("%s (%s)", strings.Join(r.subjects, ", "), clean(r.Why)))
	}
	last := result.Finding{Verdict: result.NotApplicable, Why: strings.Join(told, "; ")}
	return append(all[:first], group{Finding: last})
}

// said is a group's explanation, with the promise that it breaks.
func (g group) said() string {
	why := clean(g.Why)
	switch least := g.SecondsWithoutService; {
	case g.longest > least:
		why += fmt.Sprintf("; without service for %.1f to %.1f s", least, g.longest)
	case g.longest > 0:
		why += fmt.Sprintf("; without service for %.1f s", least)
	}
	if g.Broken != "" {
		why += fmt.Sprintf(". BROKEN PROMISE: %q", clean(g.Broken))
	}
	return why
}

// answers are the two that a finding holds, as cells: what happened, and how long others were kept out.
func answers(f result.Finding) (harm, kept cell) {
	harm, kept = cell{text: outcome(f)}, cell{text: keptOut(f)}
	switch {
	case f.Harm == result.NoHarm || f.Harm == "" && f.Verdict == result.Safe:
		harm.tone = good
	case f.Verdict.Harm() || f.Verdict == result.StuckForGood:
		harm.tone = bad
	}
	if f.KeptOut == result.NeverIn {
		kept.tone = bad
	}
	return harm, kept
}

// scenarioSection is the groups of a scenario.
func scenarioSection(all []group) section {
	if len(all) == 0 {
		return section{lines: []string{"Not reached."}, prose: [][]cell{cells(gap + "not reached")}}
	}
	t := &table{header: headings(4, "harm", "others kept out", "who", "what happens")}
	var s section
	for _, g := range all {
		s.prose = append(s.prose, g.prose()...)
		if g.Verdict == result.NotApplicable {
			s.notes = []string{"Not applicable: " + g.Why + "."}
			continue
		}
		harm, kept := answers(g.Finding)
		t.rows = append(t.rows, append([]cell{harm, kept}, cells(strings.Join(g.subjects, ", "), g.said())...))
	}
	if len(t.rows) > 0 {
		s.table = t
	}
	return s
}

// prose is a group as lines: what happened and how long others were kept out, and beside and below that who it happened
// to, and why.
func (g group) prose() (lines [][]cell) {
	margin := 0
	for _, what := range outcomes() {
		margin = max(margin, len(gap+what+gap))
	}
	harm, kept := answers(g.Finding)
	indent := strings.Repeat(" ", margin-len(gap)-len(harm.text))
	first := []cell{{text: gap}, harm, {text: indent}}
	if g.KeptOut != "" {
		lines = [][]cell{append(first, cell{text: "others kept out: "}, kept)}
		first = cells(strings.Repeat(" ", margin))
	}
	var texts []string
	if len(g.subjects) > 0 {
		texts = wrap(strings.Join(g.subjects, ", "), Width-margin)
	}
	for _, text := range append(texts, wrap(g.said(), Width-margin)...) {
		lines = append(lines, append(first, cell{text: text}))
		first = cells(strings.Repeat(" ", margin))
	}
	return lines
}

// codes are what a matrix shows of what happened to money and items, and behind it of how long others were kept out.
var codes = map[string]string{
	noHarm:                        "ok",
	string(result.TwoHolders):     "2h",
	string(result.DoneTwice):      "2d",
	string(result.PurchasesGone):  "pg",
	string(result.ToldNo):         "no",
	string(result.ChargedTwice):   "2c",
	string(result.NotPaid):        "np",
	string(result.Overdrawn):      "od",
	string(result.CoinsLost):      "c-",
	string(result.CoinsMade):      "c+",
	string(result.ItemLost):       "i-",
	string(result.SoldTwice):      "2s",
	string(result.Safe):           "ok",
	string(result.StuckForTTL):    "t",
	string(result.StuckUnbounded): "u",
	string(result.StuckForGood):   "S",
	string(result.Stopped):        "/",
	string(result.Unavailable):    "?",
	string(result.NotApplicable):  ".",

	string(result.NoLease):         "n",
	string(result.AtOnce):          "0",
	string(result.PassedOver):      "p",
	string(result.LeaseRanOut):     "1",
	string(result.CounterCaughtUp): "c",
	string(result.HolderBack):      "h",
	string(result.NeverIn):         "X",
	string(result.NotAsked):        "-",
}

// legend explains the codes that a result uses.
func legend(res *result.Faults) string {
	said := func(order []string, of func(result.Finding) string) string {
		var parts []string
		for _, what := range order {
			if slices.ContainsFunc(res.Findings, func(f result.Finding) bool { return of(f) == what }) {
				parts = append(parts, codes[what]+" = "+what)
			}
		}
		return strings.Join(parts, "; ")
	}
	return said(outcomes(), outcome) + ". Behind it, how long others were kept out: " + said(keptOuts(), keptOut) +
		". An ! behind both: the lock had promised otherwise."
}

// matrix is all findings at a glance: one row per subject and one column per scenario, in as many tables as the width
// asks for.
func matrix(res *result.Faults) []section {
	names := len("subject")
	for _, s := range res.Subjects {
		names = max(names, len([]rune(clean(s))))
	}
	columns := make([]matrixColumn, len(res.Scenarios))
	for i := range res.Scenarios {
		columns[i] = newMatrixColumn(res, i)
	}
	var sections []section
	for from := 0; from < len(columns); {
		to, width := from, names
		for to < len(columns) {
			if width += len(gap) + columns[to].width; width > Width && to > from {
				break
			}
			to++
		}
		t := &table{header: headings(1, "subject")}
		for _, c := range columns[from:to] {
			t.header = append(t.header, heading{text: c.name, left: true})
		}
		for i, s := range res.Subjects {
			row := cells(clean(s))
			for _, c := range columns[from:to] {
				row = append(row, cell{text: c.codes[i]})
			}
			t.rows = append(t.rows, row)
		}
		title := fmt.Sprintf("Scenarios %d to %d:", from+1, to)
		if to == from+1 {
			title = fmt.Sprintf("Scenario %d:", to)
		}
		sections = append(sections, section{lines: []string{title}, table: t, matrix: true,
			meaning: matrixMeaning(res, res.Scenarios[from:to])})
		from = to
	}
	if len(sections) > 0 {
		sections[0].title, sections[0].lines = "Matrix", append([]string{legend(res)}, sections[0].lines...)
	}
	return sections
}

// A matrixColumn is the codes of one scenario's findings, by subject.
type matrixColumn struct {
	name  string
	codes []string
	width int
}

func newMatrixColumn(res *result.Faults, scenario int) matrixColumn {
	c := matrixColumn{name: strconv.Itoa(scenario + 1), codes: make([]string, len(res.Subjects))}
	c.width = len(c.name)
	for _, f := range res.Of(res.Scenarios[scenario].Name) {
		i := slices.Index(res.Subjects, f.Subject)
		if i < 0 {
			continue
		}
		c.codes[i] = codes[outcome(f)] // every known verdict has one
		if !slices.Contains([]result.Verdict{result.NotApplicable, result.Unavailable, result.Stopped}, f.Verdict) {
			c.codes[i] += " " + cmp.Or(codes[keptOut(f)], none)
		}
		if f.Broken != "" {
			c.codes[i] += "!"
		}
		c.width = max(c.width, len(c.codes[i]))
	}
	return c
}

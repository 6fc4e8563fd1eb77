package results_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// TestExplorationsAreWrittenAsTheyAreStored, to the byte.
func TestExplorationsAreWrittenAsTheyAreStored(t *testing.T) {
	for _, path := range glob(t, "explored/*.json", "judged/*/explored.json") {
		stored := text(t, path)
		res := testkit.Must(findings.ReadExplorations(strings.NewReader(stored)))(t)
		var again bytes.Buffer
		if err := res.Write(&again); err != nil || again.String() != stored {
			t.Errorf("%s is not as marketsim writes it: %v", path, err)
		}
	}
}

// readExplored reads searches that are stored.
func readExplored(t *testing.T, path string) []findings.Exploration {
	t.Helper()
	return testkit.Must(findings.ReadExplorations(strings.NewReader(text(t, path))))(t).Searches
}

// TestExploredInPages: what pages show of searches is what is stored. With
// -update it is written there.
func TestExploredInPages(t *testing.T) {
	all, masters := readExplored(t, "explored/explored.json"), readExplored(t, "explored/redlock.json")
	givenUp := readExplored(t, "explored/cancel.json")
	twice := readExplored(t, "explored/two-faults.json")

	for _, e := range slices.Concat(all, masters, givenUp, twice) {
		if e.Broken != "" { // docs/explored.md says that there is none
			t.Errorf("%s in %s breaks %q", e.Scheme, e.Program, e.Broken)
		}
	}

	late := func(e findings.Exploration) bool {
		return e.Scheme == "setnx" && e.Program == "one-item-long-leases"
	}
	inPage(t, "../docs/explored.md", "explored: safe", safeSchemes(all))
	inPage(t, "../docs/explored.md", "explored: table", folded(
		fmt.Sprintf("All %d searches", len(all)), exploredTable(all)))
	inPage(t, "../docs/explored.md", "explored: after-unknown", afterUnknown(all))
	inPage(t, "../docs/explored.md", "explored: cancel", cancelled(givenUp))
	inPage(t, "../docs/explored.md", "explored: two-faults", folded(
		withTwoFaults(twice), exploredTable(twice)))
	inPage(t, "../docs/explored.md", "explored: late", folded(
		"The schedule, request by request", replayed(t, all, late)))

	inPage(t, "../docs/faults.md", "explored: schemes", folded(
		"Each scheme, with its harms and its bounds", schemes(all)))
	inPage(t, "../docs/faults.md", "faults: least harm", leastHarmed(readFaults(t)))

	inPage(t, "../docs/redlock.md", "explored: redlock", exploredTable(masters))
	for _, of := range []string{"pause", "late", "empty,lose-request", "server-clock,lose-request"} {
		is := func(e findings.Exploration) bool { return strings.Join(e.Of, ",") == of }
		inPage(t, "../docs/redlock.md", "explored: "+of, replayed(t, masters, is))
	}

	figures := view.Schedules(&findings.Explorations{Searches: all})
	i := slices.IndexFunc(figures, func(f view.Figure) bool { return f.Name == "set-px" })
	var picture bytes.Buffer
	testkit.Succeeds(t, view.SVG(&picture, figures[i]))
	rewrite(t, "../docs/pictures/set-px.svg", text(t, "../docs/pictures/set-px.svg"), picture.String())
}

// inPage compares a part of a page, between its markers, with what it should be,
// or replaces it with -update.
func inPage(t *testing.T, page, name, want string) {
	t.Helper()
	is := text(t, page)
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(is, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Errorf("%s has no part %q", page, name)
		return
	}
	rewrite(t, page, is, before+begin+want+end+after)
}

// folded is a part of a page that opens with a click. GitHub reads Markdown in it behind
// an empty line.
func folded(summary, text string) string {
	return "<details>\n<summary>" + summary + "</summary>\n\n" + text + "\n</details>\n"
}

// replayed is the diagram of a stored harm, which its token plays again.
func replayed(t *testing.T, all []findings.Exploration, is func(findings.Exploration) bool) string {
	t.Helper()
	i := slices.IndexFunc(all, is)
	if i < 0 || all[i].Token == "" {
		t.Error("a harm that a page shows is not stored")
		return ""
	}
	subject, name, _, err := search.ParseToken(all[i].Token)
	testkit.Succeeds(t, err)
	m, _ := suite.MarketNamed(name)
	spec := testkit.Must(m.Spec(catalogue.Full(), subject))(t)
	found := testkit.Must(explore.Replay(
		t.Context(), m.Program(spec.String(), spec.OpenFor), all[i].Token))(t)
	return found.Diagram.String()
}

// exploredTable is what is stored, as a page shows it: without padding, because it is long.
func exploredTable(all []findings.Exploration) string {
	var b strings.Builder
	table := view.ExploredTable(all)

	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }

	line(table.Headings)
	line(slices.Repeat([]string{"---"}, len(table.Headings)))

	for _, row := range table.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, cell.Text)
		}
		line(cells)
	}
	return b.String()
}

// longLeases ends the name of a program in which locks outlast the clients' patience.
const longLeases = "-long-leases"

// safeSchemes are those with which two buyers of one item do no harm, and what the
// searches in the other programs found; then how many others there are.
func safeSchemes(all []findings.Exploration) string {
	var b strings.Builder
	b.WriteString("| scheme | nothing was found in | harm was found in | schedules |\n" +
		"|:--|:--|:--|--:|\n")
	others, unexplored := map[verify.Harm]int{}, 0

	for _, of := range perScheme(all) {
		first := func(e findings.Exploration) bool {
			return e.Harm != "" && strings.TrimSuffix(e.Program, longLeases) == of[0].Program
		}
		harmed := slices.IndexFunc(of, first)
		switch {
		case of[0].Why != "":
			unexplored++
			continue
		case harmed >= 0:
			others[of[harmed].Harm]++
			continue
		}

		var programs []string
		harms := map[string]verify.Harm{} // by program, whatever its leases
		schedules := 0
		for _, e := range of {
			schedules += e.Schedules
			name := strings.TrimSuffix(e.Program, longLeases)
			if _, known := harms[name]; !known {
				programs = append(programs, name)
			}
			harms[name] = cmp.Or(e.Harm, harms[name])
		}

		var nothing, something []string
		for _, name := range programs {
			if harms[name] == "" {
				nothing = append(nothing, name)
			} else {
				something = append(something, fmt.Sprintf("%s: %s", name, harms[name]))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", of[0].Scheme, strings.Join(nothing, ", "),
			strings.Join(something, ", "), view.Number(float64(schedules), runs.Plain))
	}

	var found []string
	total := 0
	for _, harm := range slices.Backward(verify.Harms()) {
		if n := others[harm]; n > 0 {
			found = append(found, fmt.Sprintf("%s with %d", harm, n))
			total += n
		}
	}
	fmt.Fprintf(&b,
		"\nHarm was found with each of the other %d schemes, already where two buy one item: %s.\n"+
			"Not explored: %d.\n", total, and(found), unexplored)
	return b.String()
}

// perScheme divides searches, which are stored scheme by scheme.
func perScheme(all []findings.Exploration) (schemes [][]findings.Exploration) {
	for i, e := range all {
		if i == 0 || all[i-1].Scheme != e.Scheme {
			schemes = append(schemes, nil)
		}
		last := len(schemes) - 1
		schemes[last] = append(schemes[last], e)
	}
	return schemes
}

// withTwoFaults says how many searches with two faults have come to their end, with any number
// of preemptions, and how many have not.
func withTwoFaults(all []findings.Exploration) string {
	var ended, schedules, stopped, harmed, notRun int
	for _, e := range all {
		switch {
		case e.Why != "":
			notRun++
		case e.Harm != "":
			harmed++
		case e.Complete:
			ended++
			schedules += e.Schedules
		default:
			stopped++
		}
	}

	return fmt.Sprintf("Nothing in %d searches, which ended after %s schedules; harm in %d; "+
		"nothing in %d until their time was over; %d not run yet",
		ended, view.Number(float64(schedules), runs.Plain), harmed, stopped, notRun)
}

// cancelled says what was found where calls are given up, and nothing else strikes.
func cancelled(all []findings.Exploration) string {
	var harmed, anyway, unexplored []string
	nothing, schedules := 0, 0
	for _, e := range all {
		switch {
		case e.Why != "":
			unexplored = append(unexplored, e.Scheme)
		case e.Harm == "":
			nothing++
			schedules += e.Schedules
		case e.Faults == 0:
			anyway = append(anyway, "`"+e.Scheme+"`")
		default:
			harmed = append(harmed, fmt.Sprintf("| %s | %s | (%s, %d) |",
				e.Scheme, e.Harm, e.WithinPreemptions(), e.Faults))
		}
	}

	table := ""
	if len(harmed) > 0 {
		table = "| scheme | harm | (p, f) |\n|:--|:--|:--|\n" + strings.Join(harmed, "\n") + "\n\n"
	}
	return table + fmt.Sprintf("- nothing with %d schemes, in %s schedules;\n"+
		"- harm with %d, which do it without a fault too: %s;\n"+
		"- harm by a call that is given up, with %d; not explored: %d.\n",
		nothing, view.Number(float64(schedules), runs.Plain),
		len(anyway), and(anyway), len(harmed), len(unexplored))
}

// leastHarmed are the schemes that two scenarios at most harm, and how the others fared.
func leastHarmed(faults *findings.FaultTable) string {
	const few = 2
	var b strings.Builder
	b.WriteString("| scheme | harmed in | of the scenarios that can strike it |\n|:--|:--|--:|\n")
	fewest, most, others, stuck := math.MaxInt, 0, 0, 0

	for _, scheme := range faults.Subjects {
		var harms []string
		struck, never := 0, false
		for _, f := range faults.Findings {
			if f.Subject != scheme || f.Harm == "" {
				continue
			}
			struck++
			never = never || f.KeptOut == verify.NeverIn
			if f.Verdict.Harm() {
				harms = append(harms, f.Scenario+": "+string(f.Harm))
			}
		}

		if len(harms) <= few {
			fmt.Fprintf(&b, "| %s | %s | %d |\n", scheme, strings.Join(harms, ", "), struck)
			continue
		}
		others++
		fewest, most = min(fewest, len(harms)), max(most, len(harms))
		if never {
			stuck++
		}
	}
	fmt.Fprintf(&b, "\nEach of the other %d schemes was harmed in %d to %d scenarios; "+
		"with %d of them there is one after which others never got in.\n",
		others, fewest, most, stuck)
	return b.String()
}

// afterUnknown says what was found about the ways to go on after a write of unknown outcome.
func afterUnknown(all []findings.Exploration) string {
	var b strings.Builder
	b.WriteString("| scheme | what the holder does | found |\n|:--|:--|:--|\n")

	for _, way := range [][2]string{
		{"set-px:after-unknown=release", `releases, as a "finally" does`},
		{"set-px", "leaves the lock to its lease of 4 s: the write may be later still"},
		{"set-px:after-unknown=kill", "has the server close the old connection, reads, and releases"},
		{"setnx", "releases, because the lock never expires"},
	} {
		is := func(e findings.Exploration) bool {
			return e.Scheme == way[0] && e.Program == "one-item-long-leases"
		}
		e, found := all[slices.IndexFunc(all, is)], ""
		if e.Harm == "" {
			found = fmt.Sprintf("nothing in %d", e.Schedules)
		} else {
			found = fmt.Sprintf("%s in %d of %d", e.Harm, e.Harmful, e.Schedules)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", way[0], way[1], found)
	}
	return b.String()
}

// schemes is a line for each scheme: the harms with the programs that show them,
// or the programs in which none was found.
func schemes(all []findings.Exploration) string {
	var b strings.Builder
	b.WriteString("| scheme | harm | nothing |\n|:--|:--|:--|\n")

	for i, e := range all {
		// The searches of a scheme follow each other: the first of them makes its line.
		if i > 0 && all[i-1].Scheme == e.Scheme {
			continue
		}

		var harms, nothing []string
		for _, e := range all[i:] {
			bounds := fmt.Sprintf("(%s, %d)", e.WithinPreemptions(), e.Faults)
			switch {
			case e.Scheme != all[i].Scheme || e.Why != "" || !e.Concludes():
			case e.Harm != "":
				harms = append(harms, e.Program+" "+bounds)
			default:
				nothing = append(nothing, fmt.Sprintf("%s %s: %d", e.Program, bounds, e.Schedules))
			}
		}

		if e.Why != "" {
			nothing = []string{e.Found()}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n",
			e.Scheme, strings.Join(harms, ", "), strings.Join(nothing, ", "))
	}
	return b.String()
}

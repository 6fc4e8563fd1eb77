package results_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestLibrariesInPage: the table of docs/libraries.md shows libraries.csv, and what the
// stored table of faults says of each scenario. With -update it is written there.
func TestLibrariesInPage(t *testing.T) {
	faults := readFaults(t)
	var table strings.Builder
	table.WriteString("| what you use | its scheme | marketsim's name | whose code was run | try | it finds |\n" +
		"|:--|:--|:--|:--|:--|:--|\n")

	for _, l := range reference.Libraries() {
		name := l.Name
		if l.Source != "" {
			name += " (" + l.Source + ")"
		}

		code := strings.Replace(l.Code, "judged", "[judged](judged.md)", 1)
		found := finding(t, faults, l.Scenario, l.Lock).InWords()
		fmt.Fprintf(&table, "| %s | %s | %s | %s | `faults --scenario %s --lock %s` | %s |\n",
			name, l.Scheme, l.Known, code, l.Scenario, l.Lock, found)
	}

	inPage(t, "../docs/libraries.md", "table: libraries.csv", table.String())
}

// TestLibrariesLeadToSchemes: each row of libraries.csv has names, and names schemes that
// there are.
func TestLibrariesLeadToSchemes(t *testing.T) {
	page := text(t, "../docs/libraries.md")
	for _, l := range reference.Libraries() {
		parts := strings.Split(l.Known, "`")
		if len(parts) < 3 || slices.Contains(l.Names, "") {
			t.Errorf("%s: no scheme is named in %q, or it has an empty name in %q", l.Name, l.Known, l.Names)
		}

		// Each second part stands between two backquotes, and is a name.
		for i := 1; i < len(parts); i += 2 {
			if _, err := fault.SchemeOf(catalogue.Full(), parts[i]); err != nil {
				t.Errorf("%s: %v", l.Name, err)
			}
		}

		if l.Source != "" && !strings.Contains(page, "\n"+l.Source+". ") {
			t.Errorf("%s: docs/libraries.md has no source %s", l.Name, l.Source)
		}

		for _, name := range append(l.Names, l.Name, strings.ToUpper(l.Names[0])) {
			named := reference.LibrariesNamed(name)
			if !slices.ContainsFunc(named, func(other reference.Library) bool { return other.Name == l.Name }) {
				t.Errorf("%q does not lead to %s", name, l.Name)
			}
		}
	}

	for _, typed := range []string{"redis py", "RedisPy", "REDIS_PY"} {
		if named := reference.LibrariesNamed(typed); len(named) != 1 || named[0].Name != "redis-py Lock" {
			t.Errorf("%q means %v", typed, named)
		}
	}

	if named := reference.LibrariesNamed("-"); len(named) > 0 {
		t.Errorf("a name without a letter means %v", named)
	}
}

// TestJudgedProgramsAreStored: each folder of results/judged has its line, and can be read.
func TestJudgedProgramsAreStored(t *testing.T) {
	programs := reference.JudgedPrograms()
	if folders := glob(t, "judged/*/explored.json"); len(folders) != len(programs) {
		t.Errorf("%d programs are stored, and judged/programs.csv has %d", len(folders), len(programs))
	}

	for _, p := range programs {
		res := testkit.Must(findings.ReadExplorations(strings.NewReader(p.Explored)))(t)
		if !res.Judged || p.Library == "" {
			t.Errorf("%s, made with %q: %+v", p.Name, p.Library, res)
		}

		same := func(other reference.JudgedProgram) bool { return other.Name == p.Name }
		if !slices.ContainsFunc(reference.JudgedProgramsNamed(p.Name), same) {
			t.Errorf("%q does not lead to itself", p.Name)
		}
	}
}

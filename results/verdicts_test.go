package results_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

const storedFaults = "faults-2026-11-21-redis-7.0.15"

// verdicts are those of the stored table, by scenario and subject.
func verdicts(t *testing.T) map[[2]string]string {
	t.Helper()
	text, err := os.ReadFile(storedFaults + "/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Findings []struct{ Scenario, Subject, Verdict string } `json:"findings"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	all := map[[2]string]string{}
	for _, f := range stored.Findings {
		all[[2]string{f.Scenario, f.Subject}] = f.Verdict
	}
	return all
}

var told = regexp.MustCompile(`(?m)^    marketsim faults --scenario (\S+) --lock (\S+) +# (.+)$`)

// TestDocsTellStoredVerdicts compares each command of docs/faults.md with what it found.
func TestDocsTellStoredVerdicts(t *testing.T) {
	docs, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	stored := verdicts(t)
	commands := told.FindAllStringSubmatch(string(docs), -1)
	if want := strings.Count(string(docs), "marketsim faults --scenario"); len(commands) != want || want == 0 {
		t.Errorf("docs/faults.md has %d commands, of which %d say what they find", want, len(commands))
	}
	for _, c := range commands {
		if got := stored[[2]string{c[1], c[2]}]; got != c[3] {
			t.Errorf("docs/faults.md says that %s with %s is %q, and the stored table %q", c[1], c[2], c[3], got)
		}
	}
	scenarios := map[string]bool{}
	for cell := range stored {
		scenarios[cell[0]] = true
	}
	for scenario := range scenarios {
		if !strings.Contains(string(docs), "--scenario "+scenario+" ") {
			t.Errorf("docs/faults.md does not tell of %s", scenario)
		}
	}
}

// TestREADMEShowsStoredVerdicts compares the table of verdicts in the README with the stored one.
func TestREADMEShowsStoredVerdicts(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- from results/"+storedFaults+" -->\n")
	table, _, closed := strings.Cut(rest, "<!-- end -->")
	if !found || !closed {
		t.Fatal("README.md has no marked table of verdicts")
	}
	stored := verdicts(t)
	var scenarios []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case scenarios == nil:
			scenarios = cells[1:]
		case strings.HasPrefix(cells[0], ":-"):
		default:
			for i, verdict := range cells[1:] {
				if got := stored[[2]string{scenarios[i], cells[0]}]; got != verdict {
					t.Errorf("README.md says that %s with %s is %q, and the stored table %q", scenarios[i], cells[0], verdict, got)
				}
			}
		}
	}
}

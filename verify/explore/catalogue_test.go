package explore_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

const (
	stored          = "../../results/explored/explored.json"
	twoFaultsStored = "../../results/explored/two-faults.json"
)

func read(t *testing.T, path string) []findings.Exploration {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	all := testkit.Must(findings.ReadExplorations(bytes.NewReader(text)))(t)
	return all.Searches
}

// TestTokens: each token that is stored plays a schedule that does harm. By default one
// is played for each program and harm, with MARKETSIM_EXPLORE all are.
func TestTokens(t *testing.T) {
	type kind struct {
		program string
		harm    verify.Harm
	}
	played := map[kind]bool{}
	all := slices.Concat(read(t, stored), read(t, redlockStored), read(t, twoFaultsStored))
	for _, e := range all {
		is := kind{program: e.Program, harm: e.Harm}
		if e.Token == "" || played[is] && !explore.SearchesAll() {
			continue
		}

		played[is] = true
		subject, name, _, err := search.ParseToken(e.Token)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := programOf(t, subject, name)
		f, err := explore.Replay(t.Context(), p, e.Token)
		shows := "Harm: " + e.Harm.String() + ": " + e.Shows
		if err != nil || !strings.Contains(f.Diagram.String(), shows) {
			t.Errorf("%s: %v\n%s", e.Token, err, f.Diagram)
		}
	}
}

// TestTableOfFaults: whatever the stored table of faults says of a scenario that a
// program can express is found here, too.
func TestTableOfFaults(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../results/faults/faults.json"))(t)
	table := testkit.Must(findings.ReadFaultTable(bytes.NewReader(text)))(t)

	programs := map[string]string{
		"pause": "one-item", "pause-before-read": "one-item", "pause-in-release": "one-item",
		"crash-holding": "one-item", "slow-work": "one-item", "expired-race": "one-item",
		"restart-empty": "locks-apart",
		"late-write":    "one-item-long-leases",
	}

	all := read(t, stored)
	compared := 0
	for _, f := range table.Findings {
		program := programs[f.Scenario]
		is := func(e findings.Exploration) bool {
			return e.Scheme == f.Subject && e.Program == program
		}
		i := slices.IndexFunc(all, is)
		if program == "" || i < 0 || f.Harm == "" || f.Harm == verify.NoHarm {
			continue
		}

		compared++
		if all[i].Harm == "" {
			t.Errorf("%s of %s: the table says %s, and nothing is found in %s",
				f.Scenario, f.Subject, f.Harm, program)
		}
	}

	if compared < 50 {
		t.Errorf("only %d harms of the table were compared", compared)
	}
}

package fault

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
)

// TestClusterFaults finds what docs/failover.md says in its tables: a failover loses what
// was acknowledged and not replicated, whatever the strategy, and a slot that moves loses
// nothing.
func TestClusterFaults(t *testing.T) {
	if os.Getenv("MARKETSIM_FAULTS") != "all" {
		t.Skip("it starts a cluster for each strategy: set MARKETSIM_FAULTS=all")
	}
	t.Parallel()

	var schemes []Scheme
	for _, name := range []string{"lua", "fine", "watch", "lua:replicas=1"} {
		schemes = append(schemes, scheme(t, name))
	}

	cells := cross([]Scenario{named(t, "master-promoted")}, schemes)
	cells = append(cells, cross([]Scenario{named(t, "slot-move")}, schemes[:3])...)
	found := testkit.Must(startRunner(t).run(t.Context(), cells, Parallel, nil))(t)

	page := readPage(t, "failover.md")
	for _, f := range found {
		if f.Verdict == verify.Unavailable {
			testkit.Require(t, "redis", f.Why)
		}

		row := "(?m)^\\| `" + f.Scenario + "`: [^|]+ \\| " + regexp.QuoteMeta(goneInWords(f)) + " \\|$"
		said := regexp.MustCompile(row)
		if !said.MatchString(page) {
			t.Errorf("the table in docs/failover.md does not say of %s: %s\nfound with %s: %+v",
				f.Scenario, goneInWords(f), f.Subject, f)
		}
		if f.Scenario == "slot-move" {
			if f.Harm != verify.NoHarm || (f.KeptOut == verify.AtOnce) != (f.Subject != "fine") {
				t.Errorf("%s with %s: %+v", f.Scenario, f.Subject, f)
			}
			continue
		}
		served := f.SecondsWithoutService > 0 && f.SecondsWithoutService < clientTimeout.Seconds()
		// Whom the promoted master serves when it has a replica.
		waits := strings.Contains(f.Subject, "replicas=1")
		if f.Verdict != verdictOfGone(f.Gone) || served == waits {
			t.Errorf("%s with %s: %+v", f.Scenario, f.Subject, f)
		}

		if f.Broken != "" {
			t.Errorf("%s with %s breaks a promise: %s", f.Scenario, f.Subject, f.Broken)
		}
	}
}

// goneInWords is what docs/failover.md says of the purchases that are gone.
func goneInWords(f findings.Finding) string {
	again := "an item of them was sold again: two buyers were told that it is theirs"
	if f.Gone > 0 && strings.Contains(f.Why, again) {
		return fmt.Sprintf("%d of %d; one of the items was sold again", f.Gone, boughtBehind)
	}
	return f.Why
}

// readPage is the text of a page of docs/.
func readPage(t *testing.T, name string) string {
	t.Helper()
	page := testkit.Must(os.ReadFile("../../docs/" + name))(t)
	return string(page)
}

// TestFindingsOnCluster: where the market is on a Redis Cluster, and its clients go to
// its master, faults of clients show what they show on a single server. It plays a few of
// them, or all with MARKETSIM_FAULTS=all.
func TestFindingsOnCluster(t *testing.T) {
	t.Parallel()
	scenarios := []string{"pause", "lost-reply", "cut"}
	subjects := []string{"watch", "lua", "set-px:write=fused"}
	if os.Getenv("MARKETSIM_FAULTS") == "all" {
		scenarios = nil
		subjects = append(subjects, "coarse", "set-px")
		for _, sc := range DefaultScenarios() {
			if sc.Needs == "" || sc.Needs == "Unix signals" { // it harms no server
				scenarios = append(scenarios, sc.Name)
			}
		}
	}

	chosen := testkit.Must(ScenariosNamed(scenarios...))(t)
	schemes := testkit.Must(Schemes(catalogue.Full(), subjects...))(t)

	runner := testkit.Must(newRunner(serverstest.Cluster(t).Server))(t)
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Errorf("close the runner: %v", err)
		}
	})

	cells := cross(chosen, schemes)
	compare(t, runner, storedTable(t), cells)
	t.Logf("%d findings", len(cells))
}

func verdictOfGone(n int) verify.Verdict {
	if n > 0 {
		return verify.Verdict(verify.PurchasesGone)
	}
	return verify.Safe
}

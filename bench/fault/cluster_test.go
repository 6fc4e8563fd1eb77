package fault

import (
	"os"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestClusterFaults: a slot that moves harms nobody. A failover loses what was acknowledged and not replicated, whatever the
// strategy; who asks with WAIT is told of no such purchase, and a master that misses its replicas loses what it acknowledged
// before it missed them.
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	runner := startRunner(t)
	cells := cross([]Scenario{named(t, "slot-moved")}, []Scheme{scheme(t, "watch"), scheme(t, "fine"), scheme(t, "lua")})
	for scenario, subject := range map[string]string{
		"master-promoted": "lua", "master-promoted-wait": "fine", "master-promoted-min": "watch",
	} {
		cells = append(cells, cell{named(t, scenario), scheme(t, subject)})
	}
	found, err := runner.runCells(t.Context(), cells, len(cells), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Verdict == result.Unavailable {
			testkit.Require(t, "redis", f.Why)
		}
		gone, says := 0, "no purchase that was acknowledged is gone; of those that no replica had in time nobody was told"
		switch f.Scenario {
		case "slot-moved":
			says = "each buyer follows the slot and is served once"
		case "master-promoted":
			gone, says = boughtBehind, "two buyers were told"
		case "master-promoted-min":
			gone, says = boughtBehind, "the master refused writes"
		}
		served := f.SecondsWithoutService > 0 && f.SecondsWithoutService < clientTimeout.Seconds()
		if f.Gone != gone || f.Verdict != verdictOfGone(gone) || !strings.Contains(f.Why, says) || served != (f.Scenario != "slot-moved") {
			t.Errorf("%s with %s: %+v\nwant %d gone, and %q", f.Scenario, f.Subject, f, gone, says)
		}
		if f.Broken != "" {
			t.Errorf("%s with %s breaks a promise: %s", f.Scenario, f.Subject, f.Broken)
		}
	}
}

// TestFindingsOnCluster: where the market is on a Redis Cluster, and its clients go where its slot is, faults of clients show
// what they show on a single server. It plays a few of them, or all with MARKETSIM_FAULTS=all.
func TestFindingsOnCluster(t *testing.T) {
	t.Parallel()
	scenarios, subjects := []string{"pause", "lost-reply", "cut"}, []string{"watch", "lua", "set-px:write=fused"}
	if os.Getenv("MARKETSIM_FAULTS") == "all" {
		scenarios, subjects = nil, append(subjects, "coarse", "set-px")
		for _, sc := range All() {
			if sc.Needs == "" || sc.Needs == "Unix signals" { // it harms no server
				scenarios = append(scenarios, sc.Name)
			}
		}
	}
	chosen, err := Named(scenarios...)
	if err != nil {
		t.Fatal(err)
	}
	schemes, err := Schemes(catalogue.Full(), subjects...)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := newRunner(testkit.Cluster(t).Server())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Errorf("close the runner: %v", err)
		}
	})
	cells := cross(chosen, schemes)
	compare(t, runner, storedTable(t), cells)
	t.Logf("%d findings", len(cells))
}

// TestSpreadFaults: where keys share no slot, a client that dies between two writes loses coins under locks, and leaves what
// anybody can finish where it wrote down what it was about to do. A failover that loses debits makes coins with either, and
// nobody calls that a broken promise. Other strategies are not for such a market, nor these for another.
func TestSpreadFaults(t *testing.T) {
	t.Parallel()
	runner := startRunner(t)
	crash, promoted := named(t, "crash-between-writes"), named(t, "spread-promoted")
	found, err := runner.runCells(t.Context(), []cell{
		{crash, scheme(t, "spread-locks")}, {crash, scheme(t, "spread-intents")}, {crash, scheme(t, "lua")},
		{promoted, scheme(t, "spread-intents")}, {promoted, scheme(t, "spread-locks")},
		{named(t, "slot-moved"), scheme(t, "spread-intents")},
	}, Parallel, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		harm result.Harm
		gone int
		why  string
	}{
		{result.CoinsLost, 0, "2 buyers die, each between two other writes, and nothing says what was under way: coins vanished"},
		{result.NoHarm, 0, "4 buyers die, each between two other writes; anybody can finish what they leave"},
		{"", 0, "it cannot reach keys that share no slot"},
		{result.CoinsMade, boughtBehind, "lost the debits of 3 purchases"},
		{result.CoinsMade, boughtBehind, "120 coins came from nowhere"},
		{"", 0, "it is for keys that share no slot"},
	} {
		f := found[i]
		if f.Verdict == result.Unavailable {
			testkit.Require(t, "redis", f.Why)
		}
		if f.Harm != want.harm || f.Gone != want.gone || !strings.Contains(f.Why, want.why) || f.Broken != "" {
			t.Errorf("%s with %s: %+v\nwant %+v", f.Scenario, f.Subject, f, want)
		}
	}
}

func verdictOfGone(n int) result.Verdict {
	if n > 0 {
		return result.Verdict(result.PurchasesGone)
	}
	return result.Safe
}

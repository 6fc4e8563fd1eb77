package fault

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
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

func verdictOfGone(n int) result.Verdict {
	if n > 0 {
		return result.Verdict(result.PurchasesGone)
	}
	return result.Safe
}

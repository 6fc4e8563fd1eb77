package report

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// TestMixOfAWorkload: the head of a report names the run's workload, and the mix of a row one that is not the run's. Lines
// for benchstat always do, because they have no head.
func TestMixOfAWorkload(t *testing.T) {
	run := &result.Run{Schema: result.Schema, Status: result.Complete}
	run.Manifest.Config.Workload = result.Workload{Hot: 1, RTTMS: 0.2}
	same := result.Row{Strategy: "fine", Buyers: 8, Workload: run.Manifest.Config.Workload}
	other := same
	other.HoldMS = 2
	if got := mix(row{same, run}); got != "0x8" {
		t.Errorf("the mix of a row of the run's workload is %q", got)
	}
	if got := mix(row{other, run}); got != "0x8 hot=1 hold=2ms rtt=0.2ms" {
		t.Errorf("the mix of a row of another is %q", got)
	}
	if head := strings.Join(runHead(run), " "); !strings.Contains(head, "; workload hot=1 rtt=0.2ms") {
		t.Errorf("the head is %q", head)
	}
	if got := benchmarkName(same, 2); got != "BenchmarkMarket/strategy=fine/mix=0x8/hot=1/rtt=0.2ms-2" {
		t.Errorf("a line for benchstat begins with %q", got)
	}
	run.Manifest.Config.Workload = result.Workload{}
	if head := strings.Join(runHead(run), " "); strings.Contains(head, "workload") {
		t.Errorf("the head of a run of the book's workload is %q", head)
	}
}

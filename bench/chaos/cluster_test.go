package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// TestCluster lets the market's slot move and its master die under a strategy that loses nothing by itself. Purchases may
// be gone, because a replica that lags behind is promoted: that is told, and no violation.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := begin(t, StartCluster)
	const short = 200 * time.Millisecond
	schedule := Schedule{
		{Faults: []Fault{
			{Kind: SlotMove, Length: short}, {Kind: ClientPause, Step: step.BeforeWrite, Length: short},
		}, Rest: short},
		{Faults: []Fault{{Kind: MasterKill, Length: short}, {Kind: SlotMove, Length: short}}, Rest: short},
	}
	var judged []bool
	row, err := s.Run(t.Context(), config(t, s, "watch", result.Mix{Sellers: 3, Buyers: 3}), Options{
		Schedule: schedule, Child: backend.CanPause, Patience: soon,
		OnRound: func(r result.Row) { judged = append(judged, r.Audit.Gone != nil) },
	})
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Bought == 0 {
		t.Fatalf("%v, %+v, %v", row.Audit, row.Chaos, err)
	}
	if !slices.Equal(judged, []bool{false, true}) {
		t.Errorf("rounds after which purchases may be gone: %v, want the second", judged)
	}
	for kind, want := range map[FaultKind]int64{SlotMove: 2, MasterKill: 1, ClientPause: 1} {
		if got := row.Chaos.Faults[string(kind)]; got != want {
			t.Errorf("%d %s, want %d", got, kind, want)
		}
	}
	if row.Chaos.Market != result.MarketRight || len(row.Chaos.NotTested) > 0 {
		t.Errorf("it is told as %+v", row.Chaos)
	}
}

// TestScheduleOnCluster has what can strike a cluster, and nothing else.
func TestScheduleOnCluster(t *testing.T) {
	for _, r := range (Plan{Seed: 1, Duration: time.Minute, Cluster: true, Child: true}).Schedule() {
		for _, f := range r.Faults {
			if !slices.Contains(clusterKinds, f.Kind) {
				t.Errorf("%s", f)
			}
		}
	}
}

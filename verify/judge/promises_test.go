package judge

import (
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A search that chance has ended concludes nothing, and one that the time has
// ended says how far it came.
func TestPromisesOfASearchThatWasStopped(t *testing.T) {
	for _, c := range []struct{ stopped, state string }{
		{"", "kept"}, {"the time that it was given", "kept"}, {"because " + explore.ErrChance.Error(), "unchecked"},
	} {
		row := verify.Explored{Judged: true, Program: locks, Stopped: c.stopped}
		got := promises([]verify.Explored{row}, map[string]bool{exclusive: true}, "")[0]
		if got.State != c.state || (got.Why == "") != (c.stopped == "") {
			t.Errorf("stopped %q: %+v, want %s", c.stopped, got, c.state)
		}
	}
}

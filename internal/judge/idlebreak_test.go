package judge_test

import (
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// The connections of a holder break while it asks nothing. Most clients connect again, and are
// none the worse for it. One that does not gets no lock any more.
func TestConnectionsThatBreakWhileIdle(t *testing.T) {
	alone(t)
	t.Parallel()
	breaks := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.IdleBreak}}
	finds(t, options(t, "compare", breaks))
	breaks.Preemptions = 0
	finds(t, options(t, "dials once", breaks), verify.LockedOut, verify.NoLongerLocks)
}

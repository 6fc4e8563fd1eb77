package judge_test

import (
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// The connections of a holder break while it asks nothing. A sound lock is told so by its
// release, and releases again; one that then forgets its mutex no longer takes locks.
func TestConnectionsThatBreakWhileIdle(t *testing.T) {
	alone(t)
	breaks := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.IdleBreak}}
	finds(t, options(t, "compare", breaks))
	finds(t, options(t, "stuck", breaks), verify.LockedOut, verify.NoLongerLocks)
}

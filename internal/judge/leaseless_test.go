package judge_test

import (
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A lock without a lease, and one that its waiters prolong, are judged: whoever dies keeps them.
// That two are inside is never said of them, though one is stopped for longer than the time that
// the lock was asked to last.
func TestLocksWithoutALease(t *testing.T) {
	alone(t)
	t.Parallel()
	dies := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Die}}
	finds(t, options(t, "prolongs", dies), verify.LockedOut)
	dies.Kinds = append(dies.Kinds, explore.Pause)
	finds(t, options(t, "no lease", dies), verify.LockedOut)
}

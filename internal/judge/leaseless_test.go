package judge_test

import (
	"fmt"
	"testing"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A lock without a lease, and one that its waiters prolong, are judged: whoever dies keeps them.
// That two are inside is never said of them, though one is stopped for longer than the time that
// they were asked to last.
func TestLocksWithoutALease(t *testing.T) {
	alone(t)
	for _, kind := range []string{"no lease", "prolongs"} {
		o := options(t, kind, explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Die}})
		finds(t, o, verify.LockedOut)
	}
}

// The report of such a lock says that no lease was seen, and which promise that breaks.
func TestReportOfALockWithoutALease(t *testing.T) {
	alone(t)
	retried(t, options(t, "no lease", explore.Bounds{Preemptions: 1, Faults: 1}), func(o judge.Options) error {
		r, err := judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}
		states := map[string]string{}
		for _, p := range r.Promises {
			states[p.Promise] = p.State
		}

		lease := r.Searches[0].Lease
		switch {
		case states["exclusive"] != "kept" || states["survives a crash"] != "broken":
			return fmt.Errorf("promises: %+v", r.Promises)
		case lease == nil || lease.KeptMS < 3000 || lease.LongestMS != 0:
			return fmt.Errorf("lease: %+v", lease)
		}
		return nil
	})
}

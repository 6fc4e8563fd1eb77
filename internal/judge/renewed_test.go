package judge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// renewing is the command of testdata/renews.py, of some kind.
func renewing(kind string) []string {
	return []string{"/usr/bin/python3", "testdata/renews.py", kind}
}

// To renew is a choice while a client is inside, and faults strike it. A renewal that neither
// compares nor ends keeps a dead client's lock for ever; each of the others is sound.
func TestReplayOfRenewals(t *testing.T) {
	alone(t)
	t.Parallel()
	for _, c := range []struct {
		command []string
		token   string
		harm    verify.Harm
	}{
		{renewing("stops"), "x5/stops/lock/d1.r1.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm},
		{renewing("stops"), "x5/stops/lock/d1.lose-reply1-2.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm},
		{renewing("goes-on"), "x5/goes-on/lock/d1.d1.d1.d1.d1.d1.d2.die2-2", verify.NoHarm},
		{renewing("chain"), "x5/chain/lock-works/d1.d2.r1.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm},
		{renewing("child"), "x5/child/lock/d1.r1.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm},
		{renewing("forever"), "x5/forever/lock/d1.d1.d1.d1.d1.d1.d2.die2-2", verify.LockedOut},
		{renewing("tardy"), "x5/tardy/lock/d1.r1.d2.d2.d1.d1.d1.d2.d1.d1.d1", verify.Outlived},

		{
			[]string{"node", "testdata/renews.js", "stops"},
			"x5/stops/lock/d1.r1.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm,
		},
		{
			[]string{"ruby", "testdata/renews.rb", "stops"},
			"x5/stops/lock/d1.r1.d1.d1.d1.d1.d1.d2.d2.d2", verify.NoHarm,
		},
	} {
		replays(t, c.command, c.token, c.harm)
	}
}

// A client whose clock is wrong renews by it: one that is behind ends its lock with that. A renewal
// by a duration does not.
func TestRenewalByAClock(t *testing.T) {
	alone(t)
	t.Parallel()
	for kind, want := range map[string]bool{"chain": true, "stops": false} {
		o := options(t, "", explore.Bounds{})
		o.Command = renewing(kind)
		o.Program = "lock-clock-behind"
		retried(t, o, func(o judge.Options) error {
			broken, err := breaks(t.Context(), o)
			if err == nil && broken != want {
				err = fmt.Errorf("%s is broken: %t, want %t", kind, broken, want)
			}
			return err
		})
	}
}

// Renewals by a thread, or by one of another process for all locks, end with a verdict.
func TestRenewingLocksHaveVerdicts(t *testing.T) {
	if os.Getenv("MARKETSIM_JUDGE") != "languages" {
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=languages")
	}

	for kind, state := range map[string]string{
		"stops": "kept", "goes-on": "kept", "child": "kept", "forever": "broken",
	} {
		o := options(t, "", explore.Bounds{Preemptions: 1, Faults: 1})
		o.Command = renewing(kind)
		o.Bounds.Kinds = nil
		o.Within = 90 * time.Second

		began := time.Now()
		r, err := judge.Judge(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		t.Logf("%s took %s", kind, time.Since(began))

		for _, p := range r.Promises {
			if p.Promise == "survives a crash" && p.State != state {
				t.Errorf("%s: %+v, want %s", kind, r.Promises, state)
			}
		}
	}
}

// A program that cannot take locks any more, because of what a fault has left in it, is told
// of, and one that can is not.
func TestWhatAFaultLeavesInAProgram(t *testing.T) {
	t.Parallel()
	const token = "x5/any/lock/d1.d1.d1.d1.d1.d1.d2.d2.lose-reply2.d2.d2"
	harms := map[string]verify.Harm{"stuck": verify.NoLongerLocks, "fails": verify.NoLongerLocks, "compare": ""}

	for kind, harm := range harms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			retried(t, options(t, kind, explore.Bounds{}), func(o judge.Options) error {
				o.Pairs = 1
				found, err := judge.Replay(t.Context(), o, token)
				waits := strings.Contains(found.Text, "Bob cannot take")
				if err == nil && (found.Harm != harm || harm != "" && !waits) {
					err = fmt.Errorf("%v, want %s\n%s", found.Violation, harm, found.Diagram)
				}
				return err
			})
		})
	}
}

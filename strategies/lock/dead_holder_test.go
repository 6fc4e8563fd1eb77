package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// A lock without an expiry is held by a dead holder for good.
func TestDeadHolderHoldsALockThatNeverExpires(t *testing.T) {
	for _, lockName := range []string{"exists-set", "setnx"} {
		t.Run(lockName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				dead := b.worker(lockName, setting{})
				b.acquire(dead)
				b.must(dead.conn.Close())

				other := b.worker(lockName, setting{params: param.Values{"timeout": "20ms"}})
				_, err := other.Acquire(t.Context(), name)
				wants(t, "acquisition after the holder's death", err, lock.ErrTimeout)
				if ttl := b.ttl(); ttl != endless || other.Promises().SurvivesCrash {
					t.Errorf("the lock expires in %s, want never; survives a crash: %v", ttl, other.Promises().SurvivesCrash)
				}
			})
		})
	}
}

package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestExistsSetLetsInTwoWhoLookAtTheSameTime(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		gateA, gateB := step.Hold(step.Looked), step.Hold(step.Looked)
		tryA := b.trying(b.worker("exists-set", setting{steps: gateA.Observe}), gateA)
		tryB := b.trying(b.worker("exists-set", setting{steps: gateB.Observe}), gateB)
		gateA.Open()
		gateB.Open()
		one, other := <-tryA, <-tryB
		if one.err != nil || other.err != nil {
			t.Fatalf("of two who looked one was refused: %v, %v", one.err, other.err)
		}

		// The first to finish frees it for a third, and the second frees it of that one.
		wants(t, "first release", one.lease.Release(t.Context()), nil)
		third := b.try(b.worker("exists-set", setting{}))
		wants(t, "second release", other.lease.Release(t.Context()), nil)
		b.free()
		wants(t, "third release", third.Release(t.Context()), lock.ErrLost)
	})
}

func TestExistsSetExcludesWhoLooksLater(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.try(b.worker("exists-set", setting{}))
		_, err := b.worker("exists-set", setting{}).Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		wants(t, "release", lease.Release(t.Context()), nil)
		b.free()
	})
}

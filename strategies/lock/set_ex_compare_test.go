package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestSetExCompareDeletesALockTakenAfterTheComparison(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Looked)
		released := b.releasing(b.try(b.worker("set-ex-compare", setting{steps: gate.Observe})), gate)
		b.expire()
		next := b.try(b.worker("set-ex-compare", setting{}))
		gate.Open()
		wants(t, "the late release", <-released, nil)
		b.free()

		third := b.try(b.worker("set-ex-compare", setting{})) // beside the next
		wants(t, "the next one's release", next.Release(t.Context()), lock.ErrLost)
		wants(t, "the third one's release", third.Release(t.Context()), nil)
	})
}

// Without a pause between the two it does what it is meant to.
func TestSetExCompareLeavesALockTakenBeforeTheComparison(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		late := b.try(b.worker("set-ex-compare", setting{}))
		b.expire()
		wants(t, "release of an expired lock", late.Release(t.Context()), lock.ErrLost)
		next := b.try(b.worker("set-ex-compare", setting{}))
		wants(t, "the late release", late.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

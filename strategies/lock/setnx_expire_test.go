package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestSetNXExpireWaiterRepairsALockWithoutTTL(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		b.diesHalfway("setnx-expire")
		waiter := b.worker("setnx-expire", setting{})
		_, err := waiter.Try(t.Context(), name)
		wants(t, "Try after the holder's death", err, lock.ErrHeld)
		b.expire() // there is a TTL now
		wants(t, "release", b.try(waiter).Release(t.Context()), nil)
		b.free()
	})
}

func TestSetNXExpireWaiterLeavesATTLAlone(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		b.try(b.worker("setnx-expire", setting{}))
		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), hour).Err())
		_, err := b.worker("setnx-expire", setting{}).Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		if ttl := b.ttl(); ttl < hour/2 {
			t.Errorf("a waiter set the TTL to %s", ttl)
		}
	})
}

// The flaw that its doc comment admits: the waiter's repair makes a paused acquisition lose the lock before it has it.
func TestSetNXExpireLetsInTwoWhenOneIsPausedHalfway(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Half)
		paused := b.trying(b.worker("setnx-expire", setting{steps: gate.Observe}), gate)
		waiter := b.worker("setnx-expire", setting{})
		_, err := waiter.Try(t.Context(), name)
		wants(t, "Try of a lock half taken", err, lock.ErrHeld)
		b.expire()
		lease := b.try(waiter)
		gate.Open()
		first := <-paused
		wants(t, "the paused Try", first.err, nil)

		wants(t, "its release", first.lease.Release(t.Context()), lock.ErrLost)
		wants(t, "the other's release", lease.Release(t.Context()), nil)
	})
}

package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
)

// The key does not say whose it is: whoever believes the holder dead frees a
// lock that is held.
func TestSetNXFixedIsFreedByAnybody(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		holder := b.try(b.worker("setnx-fixed", setting{}))
		_, err := b.worker("setnx-fixed", setting{}).Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		b.must(b.conn.Del(t.Context(), b.keys.Lock(name)).Err())
		second := b.try(b.worker("setnx-fixed", setting{})) // beside the holder
		wants(t, "the holder's release", holder.Release(t.Context()), nil)
		b.free()
		wants(t, "the second one's release", second.Release(t.Context()), lock.ErrLost)
	})
}

// Without a token they cannot know whose the lock is: they leave their own, to expire if
// it does, rather than free another's.
func TestLostReplyWithoutATokenFreesNothing(t *testing.T) {
	takenBy := map[string]string{"setnx-fixed": "setnx", "set-ex-fixed": "set"}
	eachCase(t, takenBy, func(t *testing.T, b *bench, lockName, command string) {
		proxy := testkit.StartProxy(t, b.server)

		w := b.worker(lockName, setting{through: proxy.Server()})
		tries := func() {
			t.Helper()
			proxy.LoseReply(command)
			if _, err := w.Try(t.Context(), name); err == nil {
				t.Error("Try succeeded without a reply")
			}
		}

		tries()
		if n := b.conn.Del(t.Context(), b.keys.Lock(name)).Val(); n != 1 {
			t.Error("the lock that nobody knows of was given back")
		}

		lease := b.try(b.worker(lockName, setting{}))
		tries()
		wants(t, "the holder's release", lease.Release(t.Context()), nil)
	})
}

// Without a pause between the two it does what it is meant to.
func TestSetExCompareLeavesALockTakenBeforeTheComparison(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		late := b.try(b.worker("set-ex-compare", setting{}))
		b.expire()
		wants(t, "release of an expired lock", late.Release(t.Context()), lock.ErrLost)
		next := b.try(b.worker("set-ex-compare", setting{}))
		wants(t, "the late release", late.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

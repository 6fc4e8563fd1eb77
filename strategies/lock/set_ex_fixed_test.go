package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestSetExFixedLateHolderDeletesTheNextOnesLock(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		late := b.try(b.worker("set-ex-fixed", setting{}))
		b.expire()
		next := b.try(b.worker("set-ex-fixed", setting{}))
		wants(t, "the late release", late.Release(t.Context()), nil)
		b.free()

		third := b.try(b.worker("set-ex-fixed", setting{})) // beside the next
		wants(t, "the next one's release", next.Release(t.Context()), nil)
		wants(t, "the third one's release", third.Release(t.Context()), lock.ErrLost)
	})
}

// Without a token it cannot know whose the lock is: it leaves its own to expire rather than free another's.
func TestSetExFixedLostReplyFreesNothing(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := wire.Start(t, b.server)
		w := b.worker("set-ex-fixed", setting{through: proxy.Server()})
		tries := func() {
			t.Helper()
			proxy.LoseReply("set")
			if _, err := w.Try(t.Context(), name); err == nil {
				t.Error("Try succeeded without a reply")
			}
		}
		tries()
		b.expire() // its own, which nobody knows of
		lease := b.try(b.worker("set-ex-fixed", setting{}))
		tries()
		wants(t, "the holder's release", lease.Release(t.Context()), nil)
	})
}

package lock_test

import (
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestReentrantLocalSecondEntrySendsNothing(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		w := b.worker("reentrant-local", setting{})
		lease, before := b.try(w), w.conn.Stats.Snapshot()
		again, err := reenter(t, lease)
		b.must(err)
		wants(t, "release", again.Release(t.Context()), nil)
		if sent := w.conn.Stats.Snapshot().Sub(before); sent.Commands != 0 {
			t.Errorf("entering again and leaving sent %d commands", sent.Commands)
		}
		wants(t, "last release", lease.Release(t.Context()), nil)
	})
}

// renewed is a reentrant-local that may be renewed so often, after n renewals.
func (b *bench) renewed(renewals *counter, often string, n int) (*worker, lock.Lease) {
	b.Helper()
	w := b.worker("reentrant-local", setting{
		steps: renewals.observe, params: param.Values{"renew": "5ms", "renewals": often},
	})
	lease := b.try(w)
	b.renewals(renewals, n)
	return w, lease
}

func TestReentrantLocalRunsOutAfterItsLastRenewal(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		renewals, beside := counter{}, counter{}
		w, lease := b.renewed(&renewals, "2", 2)

		// While another lock is renewed many times, this one is not.
		watched, err := b.worker("set-px+watchdog", setting{steps: beside.observe, params: often}).Try(t.Context(), "another")
		b.must(err)
		b.renewals(&beside, 10)
		b.must(watched.Release(t.Context()))
		if n := renewals.n.Load(); n != 2 {
			t.Errorf("it was renewed %d times, want 2", n)
		}

		b.expire()
		next := b.try(b.worker("reentrant-local", setting{}))
		again, err := w.Try(t.Context(), name)
		wants(t, "entering again beside the next holder", err, nil)
		if lease.Context().Err() != nil {
			t.Error("the holder was told, which it was not promised")
		}
		wants(t, "release", again.Release(t.Context()), nil)
		wants(t, "last release", lease.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

func TestReentrantLocalNoticesALossWhileItIsRenewed(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		w, old := b.renewed(&counter{}, "1000000", 1)
		b.expire()
		b.cancelled(old)
		_, err := reenter(t, old)
		wants(t, "entering a lost lock again", err, lock.ErrLost)
		lease := b.try(w) // afresh
		wants(t, "release of the lost lock", old.Release(t.Context()), lock.ErrLost)
		again := b.try(w)
		wants(t, "release", lease.Release(t.Context()), nil)
		wants(t, "last release", again.Release(t.Context()), nil)
		b.free()
	})
}

package lock_test

import (
	"context"
	"testing"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestReentrantLocalSecondEntrySendsNothing(t *testing.T) {
	t.Parallel()
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

// whileAnotherIsRenewed returns when another lock was renewed many times.
func (b *bench) whileAnotherIsRenewed() {
	b.Helper()
	beside := counter{}
	watched, err := b.worker("set-px+watchdog", setting{steps: beside.observe, params: often}).Try(b.Context(), "another")
	b.must(err)
	b.renewals(&beside, 10)
	b.must(watched.Release(b.Context()))
}

func TestReentrantLocalRunsOutAfterItsLastRenewal(t *testing.T) {
	t.Parallel()
	for often, want := range map[string]int64{"0": 0, "2": 2} {
		t.Run(often, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				renewals, params := counter{}, param.Values(nil) // as published
				if want > 0 {
					params = param.Values{"renewals": often, "renew": "5ms"}
				}
				w := b.worker("reentrant-local", setting{steps: renewals.observe, params: params})
				lease := b.try(w)
				b.renewals(&renewals, int(want))
				b.whileAnotherIsRenewed()
				if n := renewals.n.Load(); n != want {
					t.Errorf("it was renewed %d times, want %d", n, want)
				}

				b.expire()
				next := b.try(b.worker("reentrant-local", setting{}))
				again, err := w.Try(t.Context(), name)
				wants(t, "entering again beside the next holder", err, nil)
				if lease.Context().Err() != nil {
					t.Error("the holder noticed the loss, which it was not promised")
				}
				wants(t, "release", again.Release(t.Context()), nil)
				wants(t, "last release", lease.Release(t.Context()), lock.ErrLost)
				wants(t, "the next one's release", next.Release(t.Context()), nil)
			})
		})
	}
}

// It offers to ask whether the lock is still held, and does not ask itself.
func TestReentrantLocalCanBeAskedForItsLock(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.try(b.worker("reentrant-local", setting{}))
		for _, want := range []bool{true, false} {
			if mine, err := lease.(lock.Inquirer).StillMine(t.Context()); err != nil || mine != want {
				t.Errorf("it is still held: %v, %v; want %v", mine, err, want)
			}
			b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0)
		}
		wants(t, "release", lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestReentrantLocalReleaseOfOneLockEndsTheRenewalOfAll(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Renewed)
		w := b.worker("reentrant-local", setting{steps: gate.Observe, params: param.Values{"renewals": "4", "renew": "5ms"}})
		t.Cleanup(gate.Open)
		lease := b.try(w)
		<-gate.Reached() // its first renewal
		other, err := w.Try(t.Context(), "another of its locks")
		b.must(err)
		wants(t, "release of the other", other.Release(t.Context()), nil)
		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), hour).Err())
		gate.Open()
		b.whileAnotherIsRenewed()
		if ttl := b.ttl(); ttl < hour/2 {
			t.Errorf("it was renewed for %s", ttl)
		}
		wants(t, "release", lease.Release(t.Context()), nil)
	})
}

// A renewal that does not compare overwrites the next holder's token, and the late release then frees that one's lock.
func TestReentrantLocalRenewedByXXTakesTheNextOnesLock(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		gate, renewals := step.Hold(step.Renewed), counter{}
		late := b.try(b.worker("reentrant-local", setting{
			steps: func(ctx context.Context, at step.Name) {
				gate.Observe(ctx, at)
				renewals.observe(ctx, at)
			},
			params: param.Values{"renewals": "2", "renew": "5ms", "renew-by": "xx"},
		}))
		t.Cleanup(gate.Open)
		<-gate.Reached()
		b.expire()
		next := b.try(b.worker("reentrant-local", setting{}))
		gate.Open()
		b.renewals(&renewals, 2)
		wants(t, "the late release", late.Release(t.Context()), nil)
		b.free()
		wants(t, "the next one's release", next.Release(t.Context()), lock.ErrLost)
	})
}

package lock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestReentrantLocalSecondEntrySendsNothing(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		w := b.worker("reentrant-local", setting{})
		lease, before := b.try(w), w.conn.Stats.Snapshot()
		wants(t, "release", b.try(w).Release(t.Context()), nil)
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
	w := b.worker("set-px+watchdog", setting{steps: beside.observe, params: often})
	watched, err := w.Try(b.Context(), "another")
	b.must(err)
	b.renewals(&beside, 10)
	b.must(watched.Release(b.Context()))
}

func TestReentrantLocalRunsOutAfterItsLastRenewal(t *testing.T) {
	renewed := map[string]int64{"0": 0, "2": 2}
	eachCase(t, renewed, func(t *testing.T, b *bench, often string, want int64) {
		renewals := counter{}
		params := param.Values(nil) // as published
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
		wants(t, "last release, of another's lock", lease.Release(t.Context()), nil) // as published
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

func TestReentrantLocalReleaseOfOneLockEndsTheRenewalOfAll(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Renewed)
		w := b.worker("reentrant-local", setting{
			steps: gate.Observe, params: param.Values{"renewals": "4", "renew": "5ms"},
		})
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

// A renewal that does not compare overwrites the next holder's token, and the late
// release then frees that one's lock.
func TestReentrantLocalRenewedByXXTakesTheNextOnesLock(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Renewed)
		renewals := counter{}
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
		wants(t, "the next one's release", next.Release(t.Context()), nil) // nor does it notice
	})
}

// The flag that a release lowers is raised by the next lock, before the renewal of
// the first looks at it again.
func TestReentrantLocalNextLockResumesTheRenewalOfAll(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		gate := step.Hold(step.Renewed)
		w := b.worker("reentrant-local", setting{
			steps: gate.Observe, params: param.Values{"renewals": "2", "renew": "5ms"},
		})
		t.Cleanup(gate.Open)
		b.try(w)
		<-gate.Reached() // its first renewal

		for _, release := range []bool{true, false} {
			other, err := w.Try(t.Context(), "another of its locks")
			b.must(err)
			if release {
				b.must(other.Release(t.Context()))
			}
		}

		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), hour).Err())
		gate.Open()
		until(t, "its second renewal", func() bool {
			return b.ttl() < hour/2
		})
	})
}

// With one renewal to make, those that fail do not count, and nothing waits an
// hour for the next.
func TestReentrantLocalRepeatsAFailedRenewalAtOnce(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		failed, renewals := 0, counter{}
		lease := b.try(b.worker("reentrant-local", setting{
			steps:  renewals.observe,
			params: param.Values{"renewals": "1", "renew": "1h0m0s", "ttl": "1h0m0s"},
			dial: func(ctx context.Context) (*redis.Client, error) {
				failed++
				if failed < 50 {
					return nil, errNoServer
				}
				return dialer(b.server)(ctx)
			},
		}))

		b.renewals(&renewals, 1)
		wants(t, "release", lease.Release(t.Context()), nil)
	})
}

// Ten renewers sleep for a lock each, and the eleventh lock waits for one of them.
func TestReentrantLocalEleventhLockIsNotRenewed(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		renewals := counter{}
		w := b.worker("reentrant-local", setting{
			steps:  renewals.observe,
			params: param.Values{"renewals": "1", "renew": "1h0m0s", "ttl": "1h0m0s"},
		})

		for i := range 10 {
			_, err := w.Try(t.Context(), fmt.Sprint("lock ", i))
			b.must(err)
		}
		b.renewals(&renewals, 10)

		b.try(w)
		b.whileAnotherIsRenewed()
		if n := renewals.n.Load(); n != 10 {
			t.Errorf("eleven locks were renewed %d times, want 10", n)
		}
	})
}

// Entering again by SET drops the expiry, and whoever dies then holds the lock
// for good; KEEPTTL keeps it.
func TestReentrantLocalReentryBySet(t *testing.T) {
	expiring := map[string]bool{"set": false, "keepttl": true}
	eachCase(t, expiring, func(t *testing.T, b *bench, how string, expires bool) {
		w := b.worker("reentrant-local", setting{params: param.Values{"reenter": how}})
		lease := b.try(w)
		if w.Promises().SurvivesCrash != expires {
			t.Errorf("it promises %+v", w.Promises())
		}

		again := b.try(w)
		if ttl := b.ttl(); ttl == gone || expires == (ttl == endless) {
			t.Errorf("after entering again it has the TTL %s", ttl)
		}

		wants(t, "release", again.Release(t.Context()), nil)
		wants(t, "last release", lease.Release(t.Context()), nil)
		b.free()
	})
}

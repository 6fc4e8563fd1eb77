package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestSetNXSecondAcquirerWaits(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		first := b.acquire(b.locker(b.server, nil, nil))
		waits := step.Hold(step.Waiting)
		locker := b.locker(b.server, waits.Observe, nil)
		acquired := make(chan lock.Lease, 1)
		go func() {
			lease, err := locker.Acquire(t.Context(), name)
			if err != nil {
				t.Errorf("second acquisition: %v", err)
			}
			acquired <- lease
		}()
		<-waits.Reached()
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		waits.Open()
		second := <-acquired
		if polls := locker.(lock.Poller).Polls(); polls != 1 {
			t.Errorf("it polled %d times, want 1", polls)
		}
		if err := second.Release(t.Context()); err != nil || b.holder() != "" {
			t.Errorf("second release: %v; then the lock is held by %q", err, b.holder())
		}
	})
}

func TestSetNXTryAndTimeoutReportAHeldLock(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		holder := b.locker(b.server, nil, nil)
		lease := b.acquire(holder)
		other := b.locker(b.server, nil, param.Values{"timeout": "0s"})
		if _, err := other.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("Try: %v, want %v", err, lock.ErrHeld)
		}
		if _, err := other.Acquire(t.Context(), name); !errors.Is(err, lock.ErrTimeout) {
			t.Errorf("Acquire: %v, want %v", err, lock.ErrTimeout)
		}
		if _, err := holder.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) || holder.Promises().Reentrant {
			t.Errorf("the holder's Try: %v, want %v: it is not reentrant", err, lock.ErrHeld)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if lease, err := other.Try(t.Context(), name); err != nil || lease.Context().Err() != nil {
			t.Errorf("Try of a free lock: %v", err)
		}
	})
}

func TestSetNXReleaseLeavesAnothersLock(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.acquire(b.locker(b.server, nil, nil))
		b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) || b.holder() != "another" {
			t.Errorf("release: %v, want %v; then held by %q, want another", err, lock.ErrLost, b.holder())
		}
		b.conn.Del(t.Context(), b.keys.Lock(name))
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of a lock that is gone: %v, want %v", err, lock.ErrLost)
		}
	})
}

// A lock that is taken over between the comparison and the deletion is not deleted.
func TestSetNXReleaseIsAtomic(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		rdb := testkit.Dial(t, b.server)
		rdb.AddHook(before{"multi", func() { b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0) }})
		l, err := kind(t, "setnx").New(lock.Env{Redis: rdb.Client, Key: b.keys.Lock})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.acquire(l).Release(t.Context()); !errors.Is(err, lock.ErrLost) || b.holder() != "another" {
			t.Errorf("release: %v, want %v; then held by %q, want another", err, lock.ErrLost, b.holder())
		}
	})
}

// The published code does not delete the token that it may have set: nobody knows that it holds the lock.
func TestSetNXLostReplyLeavesALockThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	for _, lockName := range []string{"setnx", "setnx-expire-naive", "setnx-expire"} {
		t.Run(lockName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				proxy := testkit.StartProxy(t, b.server)
				w := b.worker(lockName, setting{through: proxy.Server()})
				proxy.LoseReply("setnx")
				if _, err := w.Acquire(t.Context(), name); err == nil || b.ttl() != endless {
					t.Errorf("acquisition: %v; then the lock has the TTL %s, want none", err, b.ttl())
				}
				_, err := w.Try(t.Context(), name)
				wants(t, "Try of a lock that nobody knows of", err, lock.ErrHeld)
				if repairs := lockName == "setnx-expire"; repairs != (b.ttl() > 0) {
					t.Errorf("then it has the TTL %s", b.ttl())
				}
			})
		})
	}
}

// The version without and the one with an expiry, mixed on one name: a waiter of the second gives the lock of the first
// an expiry. That aborts a release that has looked already, which is then made again; and the lock can be lost.
func TestSetNXMixedWithAnExpiry(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		waiter := b.worker("setnx-expire", setting{})
		looks := 0
		lease := b.acquire(b.locker(b.server, whenever(step.Looked, func() {
			if looks++; looks == 1 {
				_, err := waiter.Try(t.Context(), name)
				wants(t, "Try of a held lock", err, lock.ErrHeld)
			}
		}), nil))
		wants(t, "the release that was aborted", lease.Release(t.Context()), nil)
		if looks != 2 {
			t.Errorf("the release looked %d times whose the lock is, want 2", looks)
		}

		lease = b.acquire(b.locker(b.server, nil, nil))
		_, err := waiter.Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		b.expire()
		next := b.try(waiter)
		wants(t, "release of a lock that never expires", lease.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

func TestSetNXContextEndsTheWait(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		b.acquire(b.locker(b.server, nil, nil))
		ctx, cancel := context.WithCancel(t.Context())
		// It would poll once an hour: only the context can end the wait in time.
		l := b.locker(b.server, whenever(step.Waiting, cancel), param.Values{"poll": "1h0m0s", "timeout": "2h0m0s"})
		if _, err := l.Acquire(ctx, name); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire: %v, want %v", err, context.Canceled)
		}
	})
}

// The flaw that the doc comment admits: a full server refuses to queue the DEL.
func TestSetNXStaysHeldWhenTheServerIsFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	lease := b.acquire(b.locker(b.server, nil, nil))
	if err := b.conn.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !redis.IsExecAbortError(err) || b.holder() == "" {
		t.Errorf("release: %v; then held by %q, want the same holder", err, b.holder())
	}
}

// released gives back a lock whose acquisition has failed.
var released = param.Values{"lost-reply": "released"}

// diesHalfway makes a worker die between SETNX and EXPIRE.
func (b *bench) diesHalfway(lockName string) {
	b.Helper()
	var dying *worker
	dying = b.worker(lockName, setting{steps: whenever(step.Half, func() { _ = dying.conn.Close() })})
	if _, err := dying.Try(b.Context(), name); err == nil {
		b.Fatal("a dead worker took the lock")
	}
	if ttl := b.ttl(); ttl != endless {
		b.Fatalf("the lock has a TTL of %s, want none", ttl)
	}
}

func TestSetNXExpireNaiveIsHeldForGoodByWhoDiesHalfway(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		b.diesHalfway("setnx-expire-naive")
		other := b.worker("setnx-expire-naive", setting{params: param.Values{"timeout": "20ms"}})
		_, err := other.Acquire(t.Context(), name)
		wants(t, "acquisition after the holder's death", err, lock.ErrTimeout)
		if ttl := b.ttl(); ttl != endless {
			t.Errorf("then the lock has a TTL of %s, want none", ttl)
		}
	})
}

func TestSetNXExpireNaiveGivesBackWhatItCannotLetExpire(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := testkit.StartProxy(t, b.server)
		w := b.worker("setnx-expire-naive", setting{through: proxy.Server(), params: released})
		proxy.LoseCommand("expire")
		if _, err := w.Try(t.Context(), name); err == nil {
			t.Error("Try succeeded without EXPIRE")
		}
		b.free()
	})
}

// The server has given the lock away when it refuses to let it expire.
func TestSetNXExpireNaiveGivesBackWhatTheServerWillNotLetExpire(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t, "--rename-command", "EXPIRE", ""))
	_, err := b.worker("setnx-expire-naive", setting{params: released}).Try(t.Context(), name)
	var refused redis.Error
	if !errors.As(err, &refused) {
		t.Errorf("Try without EXPIRE: %v, want the server's refusal", err)
	}
	b.free()
}

func TestSetNXExpireWaiterRepairsALockWithoutTTL(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

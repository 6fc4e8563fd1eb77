package lock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// A lock that is taken over between the comparison and the deletion is not deleted.
func TestSetNXReleaseIsAtomic(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		rdb := testkit.Dial(t, b.server)
		rdb.AddHook(before{"multi", func() {
			b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0)
		}})
		l := testkit.Must(kind(t, "setnx").New(lock.Env{Redis: rdb.Client, Key: b.keys.Lock}))(t)
		err := b.acquire(l).Release(t.Context())
		if !errors.Is(err, lock.ErrLost) || b.holder() != "another" {
			t.Errorf("release: %v, want %v; then held by %q, want another", err, lock.ErrLost, b.holder())
		}
	})
}

// The published code does not delete the token that it may have set: nobody
// knows that it holds the lock.
func TestSetNXLostReplyLeavesALockThatNobodyKnowsOf(t *testing.T) {
	all := []string{"setnx", "setnx-expire-naive", "setnx-expire"}
	eachNamed(t, all, func(t *testing.T, b *bench, lockName string) {
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
}

// The version without and the one with an expiry, mixed on one name: a waiter of the
// second gives the lock of the first an expiry. That aborts a release that has looked
// already, which is then made again; and the lock can be lost.
func TestSetNXMixedWithAnExpiry(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		waiter := b.worker("setnx-expire", setting{})
		looks := 0
		lease := b.acquire(b.worker("setnx", setting{steps: whenever(step.Looked, func() {
			looks++
			if looks == 1 {
				_, err := waiter.Try(t.Context(), name)
				wants(t, "Try of a held lock", err, lock.ErrHeld)
			}
		})}))

		wants(t, "the release that was aborted", lease.Release(t.Context()), nil)
		if looks != 2 {
			t.Errorf("the release looked %d times whose the lock is, want 2", looks)
		}

		lease = b.acquire(b.worker("setnx", setting{}))
		_, err := waiter.Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		b.expire()
		next := b.try(waiter)
		wants(t, "release of a lock that never expires", lease.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

// The flaw that the doc comment admits: a full server refuses to queue the DEL.
func TestSetNXStaysHeldWhenTheServerIsFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	lease := b.acquire(b.worker("setnx", setting{}))
	testkit.Succeeds(t, b.conn.ConfigSet(t.Context(), "maxmemory", "1").Err())
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
	dying = b.worker(lockName, setting{steps: whenever(step.Half, func() {
		_ = dying.conn.Close()
	})})
	if _, err := dying.Try(b.Context(), name); err == nil {
		b.Fatal("a dead worker took the lock")
	}
	if ttl := b.ttl(); ttl != endless {
		b.Fatalf("the lock has a TTL of %s, want none", ttl)
	}
}

func TestSetNXExpireNaiveIsHeldForGoodByWhoDiesHalfway(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		b.diesHalfway("setnx-expire-naive")
		other := b.worker("setnx-expire-naive", setting{params: param.Values{"timeout": "20ms"}})
		_, err := other.Acquire(t.Context(), name)
		wants(t, "acquisition after the holder's death", err, lock.ErrTimeout)
		if ttl := b.ttl(); ttl != endless {
			t.Errorf("then the lock has a TTL of %s, want none", ttl)
		}
	})
}

// As the articles have it: value 1, and a DEL by whoever was holder once.
func TestSetNXExpireNaiveReleasedByDelFreesTheNextOnesLock(t *testing.T) {

	onServer(t, func(t *testing.T, b *bench) {
		w := b.worker("setnx-expire-naive", setting{params: param.Values{"release": "del"}})
		if w.Promises().OwnerRelease {
			t.Errorf("it promises %+v", w.Promises())
		}

		late := b.try(w)
		if b.holder() != "1" {
			t.Errorf("the key holds %q, want 1", b.holder())
		}

		b.expire()
		next := b.try(b.worker("setnx-expire-naive", setting{params: param.Values{"release": "del"}}))
		wants(t, "the late release", late.Release(t.Context()), nil)
		b.free()
		wants(t, "the next one's release", next.Release(t.Context()), lock.ErrLost)
	})
}

// EXPIRE in whole seconds, rounded down: with a TTL below one second it deletes
// the lock that was just taken.
func TestSetNXExpireInWholeSeconds(t *testing.T) {
	expiring := []string{"setnx-expire-naive", "setnx-expire"}
	eachNamed(t, expiring, func(t *testing.T, b *bench, lockName string) {
		w := b.worker(lockName, setting{params: param.Values{"expire": "seconds", "ttl": "999ms"}})
		first := b.try(w)
		second := b.try(w) // beside the first

		wants(t, "release", first.Release(t.Context()), lock.ErrLost)
		wants(t, "release of the second", second.Release(t.Context()), lock.ErrLost)

		long := b.worker(lockName, setting{params: param.Values{"expire": "seconds", "ttl": "1m0.9s"}})
		b.try(long)
		if b.ttl() > time.Minute || b.ttl() < time.Second {
			t.Errorf("after 1m0.9s in whole seconds it has the TTL %s", b.ttl())
		}
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
	onServer(t, func(t *testing.T, b *bench) {
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
	onServer(t, func(t *testing.T, b *bench) {
		b.try(b.worker("setnx-expire", setting{}))
		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), hour).Err())
		_, err := b.worker("setnx-expire", setting{}).Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		if ttl := b.ttl(); ttl < hour/2 {
			t.Errorf("a waiter set the TTL to %s", ttl)
		}
	})
}

// The flaw that its doc comment admits: the waiter's repair makes a paused acquisition
// lose the lock before it has it.
func TestSetNXExpireLetsInTwoWhenOneIsPausedHalfway(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
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

// The book: waiters that set the time-out at once set nearly the same. It moves by the
// time between the EXPIRE of the first and of the last: little while they run, and as
// long as one is paused between its TTL and its EXPIRE.
func TestSetNXExpireWaitersMoveTheTimeOut(t *testing.T) {
	t.Parallel()
	const waiters, pause = 8, 300 * time.Millisecond
	b := newBench(t, testkit.Local(t))
	dies := func() {
		b.must(b.conn.Set(t.Context(), b.keys.Lock(name), "a dead holder's", 0).Err())
	}

	sent := make(chan time.Time, waiters)
	var all []*worker
	for range waiters {
		observe := whenever(step.Looked, func() {
			sent <- time.Now()
		})
		all = append(all, b.worker("setnx-expire", setting{steps: observe}))
	}

	var most time.Duration
	for range 20 {
		dies()
		var waiting sync.WaitGroup
		for _, w := range all {
			waiting.Go(func() { _, _ = w.Try(t.Context(), name) })
		}

		waiting.Wait()
		first := <-sent
		for range len(sent) {
			most = max(most, (<-sent).Sub(first))
		}
	}

	dies()
	gate := step.Hold(step.Looked)
	paused := b.trying(b.worker("setnx-expire", setting{steps: gate.Observe}), gate)
	_, _ = all[0].Try(t.Context(), name)
	due := time.Now().Add(b.ttl())

	time.Sleep(pause)
	gate.Open()
	wants(t, "the paused Try", (<-paused).err, lock.ErrHeld)

	left := b.ttl()
	moved := time.Now().Add(left).Sub(due)
	t.Logf("%d that run moved it by %s at most; one that was paused for %s, by %s",
		waiters, most, pause, moved)
	if most > 5*time.Second || moved < pause-10*time.Millisecond {
		t.Error("the first moved it by too much, or the other by too little")
	}
}

// As the book's code is, and not its text: TTL answers 0 in the last half second, and
// `not ttl` takes that for none.
func TestSetNXExpireAsPublishedNeverExpiresUnderAWaiter(t *testing.T) {
	t.Parallel()
	// with a TTL, and without one
	for repair, want := range map[string]struct{ endures, endless bool }{
		"unset": {}, "redis-py-2": {endures: true}, "redis-py-3": {true, true},
	} {
		t.Run(repair, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, testkit.Local(t))
			w := b.worker("setnx-expire", setting{params: param.Values{
				"ttl": "1s", "timeout": "3s", "repair": repair,
			}})

			b.must(b.conn.Set(t.Context(), b.keys.Lock(name), "a dead holder's", 0).Err())
			_, err := w.Try(t.Context(), name)
			wants(t, "Try", err, lock.ErrHeld)
			if (b.ttl() == endless) != want.endless || w.Promises().SurvivesCrash == want.endures {
				t.Errorf("a lock without a TTL has the TTL %s then; promises: %+v", b.ttl(), w.Promises())
			}

			endures := !want.endures
			// a waiter that stands still repairs nothing
			for try := 0; try < 5 && endures != want.endures; try++ {
				b.must(b.conn.Set(t.Context(), b.keys.Lock(name), "a dead holder's", time.Second).Err())
				_, err = w.Acquire(t.Context(), name)
				t.Logf("a TTL of 1 s, after 3 s at most: %v", err)
				endures = errors.Is(err, lock.ErrTimeout)
			}

			if endures != want.endures {
				t.Errorf("Acquire: %v", err)
			}
		})
	}
}

// SETNX and EXPIRE in one script: there is no step between the two at which a holder could
// die, and whoever finds the lock held does not prolong it, as an EXPIRE in a MULTI would.
func TestSetNXExpireByScriptIsNeverHalfTaken(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		half := 0
		taking := setting{
			steps: whenever(step.Half, func() {
				half++
			}),
			params: param.Values{"take": "script", "ttl": "1h0m0s"},
		}
		lease := b.try(b.worker("setnx-expire-naive", taking))
		if half != 0 || b.ttl() <= 0 {
			t.Errorf("it was half taken %d times, and expires in %s", half, b.ttl())
		}

		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), time.Minute).Err())
		_, err := b.worker("setnx-expire-naive", taking).Try(t.Context(), name)
		wants(t, "Try of a held lock", err, lock.ErrHeld)
		if b.ttl() > time.Minute {
			t.Errorf("who found it held has prolonged it to %s", b.ttl())
		}

		release(t, lease)
		b.free()
	})
}

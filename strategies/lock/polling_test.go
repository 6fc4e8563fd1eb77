package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// An acquisition whose reply is lost keeps what it has taken, as published, or gives it
// back, as it says; setnx-fixed, set-ex-fixed and getset cannot know whose the lock is.
// What it keeps is kept from its own worker too.
func TestLostReplyIsKeptOrReleased(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for _, c := range []struct{ lock, command, by string }{ // by: the default
		{"exists-set", "exists", ""}, {"exists-set", "set", "kept"},
		{"setnx", "setnx", "kept"},
		{"setnx-expire-naive", "setnx", "kept"}, {"setnx-expire-naive", "expire", "kept"},
		{"set-ex-compare", "set", "kept"},
		{"setnx-expire", "setnx", "kept"}, {"setnx-expire", "expire", "kept"},
		{"set-px", "set", "released"},
		{"reentrant", "evalsha", "kept"}, {"reentrant-local", "set", "kept"}, {"fenced", "evalsha", ""},
	} {
		for _, how := range []string{"", "kept", "released"} {
			if c.by == "" && how != "" {
				continue
			}
			t.Run(c.lock+"/"+c.command+"/"+how, func(t *testing.T) {
				b := newBench(t, server)
				kept := how == "kept" || how == "" && c.by == "kept"

				proxy := testkit.StartProxy(t, server)
				s := setting{through: proxy.Server(), params: param.Values{}}
				if how != "" {
					s.params["lost-reply"] = how
				}

				w := b.worker(c.lock, s)
				wants(t, "first release", b.try(w).Release(t.Context()), nil) // its scripts are known now

				proxy.LoseReply(c.command)
				_, err := w.Try(t.Context(), name)
				wantsNoReply(t, err, kept && c.lock == "reentrant-local")

				if kept {
					_, err := w.Try(t.Context(), name)
					wants(t, "Try of a lock that nobody knows of", err, lock.ErrHeld)
					return
				}

				b.free()
				wants(t, "next release", b.try(w).Release(t.Context()), nil)
			})
		}
	}
}

// wantsNoReply fails the test if Try did not say that it has no reply; one that is
// swallowed looks like a lock that somebody else holds.
func wantsNoReply(t *testing.T, err error, swallowed bool) {
	t.Helper()
	if err == nil || errors.Is(err, lock.ErrHeld) != swallowed {
		t.Errorf("Try without a reply: %v", err)
	}
}

// One that is cut off halfway through looking after another's lock has nothing
// to give back.
func TestLostReplyLeavesAnothersLock(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for _, c := range []struct{ lock, command string }{
		{"exists-set", "exists"}, {"setnx-fixed", "setnx"}, {"setnx", "setnx"},
		{"setnx-expire-naive", "setnx"},
		{"set-ex-fixed", "set"}, {"set-ex-compare", "set"},
		{"getset", "setnx"}, {"getset", "get"},
		{"setnx-expire", "setnx"}, {"setnx-expire", "ttl"}, {"set-px", "set"},
		{"reentrant-local", "set"},
	} {
		t.Run(c.lock+"/"+c.command, func(t *testing.T) {
			b := newBench(t, server)
			lease := b.try(b.worker(c.lock, setting{}))

			proxy := testkit.StartProxy(t, server)
			w := b.worker(c.lock, setting{through: proxy.Server()})
			proxy.LoseReply(c.command)
			_, err := w.Try(t.Context(), name)
			wantsNoReply(t, err, c.lock == "reentrant-local")

			wants(t, "the holder's release", lease.Release(t.Context()), nil)
		})
	}
}

// A TTL is given in seconds or in milliseconds, as it is written.
func TestTTLIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for _, lockName := range []string{
		"setnx-expire-naive", "set-ex-fixed", "set-ex-compare", "setnx-expire", "set-px", "reentrant",
		"reentrant-local", "fenced",
	} {
		for _, text := range []string{"20s", "19.99s"} {
			b := newBench(t, server)
			w := b.worker(lockName, setting{params: param.Values{"ttl": text}})
			start := time.Now()
			lease := b.try(w)

			want, _ := time.ParseDuration(text)
			// The time since the start has passed of it at most.
			if ttl := b.ttl(); ttl > want || ttl < want-time.Since(start)-900*time.Millisecond {
				t.Errorf("%s:ttl=%s expires in %s", lockName, text, ttl)
			}

			wants(t, lockName+" is released", lease.Release(t.Context()), nil)
			b.free()
		}
	}
}

// A lock without an expiry is held by a dead holder for good.
func TestDeadHolderHoldsALockThatNeverExpires(t *testing.T) {
	forGood := []string{"exists-set", "setnx-fixed", "setnx"}
	eachNamed(t, forGood, func(t *testing.T, b *bench, lockName string) {
		dead := b.worker(lockName, setting{})
		b.acquire(dead)
		b.must(dead.conn.Close())

		other := b.worker(lockName, setting{params: param.Values{"timeout": "20ms"}})
		_, err := other.Acquire(t.Context(), name)
		wants(t, "acquisition after the holder's death", err, lock.ErrTimeout)
		if ttl := b.ttl(); ttl != endless || other.Promises().SurvivesCrash {
			t.Errorf("the lock expires in %s, want never; survives a crash: %v",
				ttl, other.Promises().SurvivesCrash)
		}
	})
}

// atOnce gives up after the first attempt.
const atOnce = "0s"

var rwKinds = []string{"rw-naive", "rw-keys", "rw-hash", "rw-safe"}

func read(t testing.TB, l lock.Locker) *lock.Lease {
	t.Helper()
	return testkit.Must(l.(lock.SharedLocker).AcquireShared(t.Context(), name))(t)
}

func write(t testing.TB, l lock.Locker) *lock.Lease {
	t.Helper()
	return testkit.Must(l.Acquire(t.Context(), name))(t)
}

func noReader(t testing.TB, l lock.Locker, why string) {
	t.Helper()
	_, err := l.(lock.SharedLocker).AcquireShared(t.Context(), name)
	if !errors.Is(err, lock.ErrTimeout) {
		t.Errorf("AcquireShared: %v, want %v: %s", err, lock.ErrTimeout, why)
	}
}

func noWriter(t testing.TB, l lock.Locker, why string) {
	t.Helper()
	if _, err := l.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try: %v, want %v: %s", err, lock.ErrHeld, why)
	}
	if _, err := l.Acquire(t.Context(), name); !errors.Is(err, lock.ErrTimeout) {
		t.Errorf("Acquire: %v, want %v: %s", err, lock.ErrTimeout, why)
	}
}

func TestRWLocksLetReadersInTogetherAndWritersAlone(t *testing.T) {
	eachNamed(t, rwKinds, func(t *testing.T, b *bench, kindName string) {
		c := b.workers(kind(t, kindName), param.Values{"timeout": atOnce})
		one := c.worker(nil, nil)
		other := c.worker(nil, nil)

		lease := write(t, one)
		noWriter(t, other, "a writer has it")
		noReader(t, other, "a writer has it")
		release(t, lease)
		releaseFindsItLost(t, lease)
		c.leavesNothing()

		lease = read(t, one)
		noWriter(t, other, "a reader has it")
		second := read(t, other)
		noWriter(t, one, "two readers have it")

		release(t, second)
		// To rw-hash it was lost when the second came, to rw-naive when it left.
		_ = lease.Release(t.Context())
		c.leavesNothing()

		release(t, write(t, other))
	})
}

func TestRWLocksLostReplyLeavesNothing(t *testing.T) {
	// rw-naive cannot know whose the lock is
	eachNamed(t, rwKinds[1:], func(t *testing.T, b *bench, kindName string) {
		proxy := testkit.StartProxy(t, b.server)
		c := b.workers(kind(t, kindName), released)
		release(t, read(t, c.worker(nil, nil)))
		release(t, write(t, c.worker(nil, nil))) // the server knows the scripts from here on

		c.through = proxy.Server()
		l := c.worker(nil, nil)
		for what, take := range map[string]func(context.Context, string) (*lock.Lease, error){
			"Acquire": l.Acquire, "Try": l.Try, "AcquireShared": l.(lock.SharedLocker).AcquireShared,
		} {
			proxy.LoseReply("evalsha")
			if _, err := take(t.Context(), name); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s with a lost reply: %v", what, err)
			}
			c.leavesNothing()
		}
	})
}

package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// eachReentrant runs f on each of the locks whose holder can enter again.
func eachReentrant(t *testing.T, f func(t *testing.T, b *bench, lockName string)) {
	all := []string{"reentrant", "reentrant+watchdog", "reentrant-local", "redisson"}
	for _, lockName := range all {
		t.Run(lockName, func(t *testing.T) {
			onServer(t, func(t *testing.T, b *bench) {
				f(t, b, lockName)
			})
		})
	}
}

func TestReentrantIsFreeWhenEachEntryWasReleased(t *testing.T) {
	t.Parallel()
	eachReentrant(t, func(t *testing.T, b *bench, lockName string) {
		holder, other := b.worker(lockName, setting{}), b.worker(lockName, setting{})
		first, second, third := b.try(holder), b.acquire(holder), b.try(holder)

		for _, lease := range []*lock.Lease{first, third, second} { // in any order
			_, err := other.Try(t.Context(), name)
			wants(t, "another's Try", err, lock.ErrHeld)
			wants(t, "release", lease.Release(t.Context()), nil)
			wants(t, "release of what was released", lease.Release(t.Context()), lock.ErrLost)
		}

		b.free()
		wants(t, "another's release", b.try(other).Release(t.Context()), nil)
	})
}

func TestReentrantNamesAreCountedApart(t *testing.T) {
	t.Parallel()
	eachReentrant(t, func(t *testing.T, b *bench, lockName string) {
		holder := b.worker(lockName, setting{})
		lease := b.try(holder)
		other, err := holder.Try(t.Context(), "another")
		b.must(err)
		wants(t, "release", lease.Release(t.Context()), nil)
		b.free()
		_, err = b.worker(lockName, setting{}).Try(t.Context(), "another")
		wants(t, "Try of the other lock", err, lock.ErrHeld)
		wants(t, "its release", other.Release(t.Context()), nil)
	})
}

func TestReentrantEntryRenewsTheExpiry(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		w := b.worker("reentrant", setting{})
		b.try(w)
		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), 5*time.Second).Err())
		b.try(w)
		if ttl := b.ttl(); ttl <= 5*time.Second {
			t.Errorf("after the second entry it expires in %s, want about 10s", ttl)
		}
	})
}

// The script of a release answers whether the lock is free, still held, or not
// the caller's: it leaves once.
func TestReentrantReleaseLeavesOnce(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		w := b.worker("reentrant", setting{})
		one, two, three := b.try(w), b.try(w), b.try(w)
		wants(t, "third release", three.Release(t.Context()), nil)
		wants(t, "second release", two.Release(t.Context()), nil)
		b.expire()
		wants(t, "release of an expired lock", one.Release(t.Context()), lock.ErrLost)
	})
}

var fixedOwner = param.Values{"owner": "fixed"}

// What is entered again after it has expired is a new lock to the server: the release
// of the older entry frees it.
func TestReentrantStartsAfreshWhenItHasExpired(t *testing.T) {
	t.Parallel()
	for _, lockName := range []string{"reentrant", "redisson"} {
		t.Run(lockName, func(t *testing.T) {
			onServer(t, func(t *testing.T, b *bench) {
				holder := b.worker(lockName, setting{})
				old := b.try(holder)

				b.expire()
				lease := b.try(holder)

				wants(t, "release of the older entry", old.Release(t.Context()), nil)
				b.free()
				wants(t, "release of the newer", lease.Release(t.Context()), lock.ErrLost)
			})
		})
	}
}

// Two processes that give the same name are one holder: both get in, and a late
// release frees what the other has.
func TestReentrantOfOneNameLetsTwoIn(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		one := b.worker("reentrant", setting{params: fixedOwner})
		other := b.worker("reentrant", setting{params: fixedOwner})
		if p := one.Promises(); p.Exclusive || p.OwnerRelease {
			t.Errorf("it promises %+v", p)
		}

		b.try(one)
		b.try(other)
		b.expire()
		late := b.try(one)
		b.expire()
		next := b.try(other)

		wants(t, "the late release", late.Release(t.Context()), nil)
		b.free()
		wants(t, "release of the next", next.Release(t.Context()), lock.ErrLost)
	})
}

func TestReentrantIsLostToWhoTookItAfterItExpired(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		holder := b.worker("reentrant", setting{})
		old := b.try(holder)
		b.expire()
		next := b.try(b.worker("reentrant", setting{}))
		_, err := holder.Try(t.Context(), name)
		wants(t, "Try of another's lock", err, lock.ErrHeld)
		wants(t, "release of another's lock", old.Release(t.Context()), lock.ErrLost)
		wants(t, "the other's release", next.Release(t.Context()), nil)
	})
}

// An entry whose reply was lost is taken back, and the one around it is not, whether
// or not the server counted it.
func TestReentrantLostReplyKeepsTheCount(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for what, cut := range map[string]func(*testkit.Proxy, string){
		"reply": (*testkit.Proxy).LoseReply, "command": (*testkit.Proxy).LoseCommand,
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, server)
			proxy := testkit.StartProxy(t, server)
			w := b.worker("reentrant", setting{through: proxy.Server(), params: released})
			lease := b.try(w)

			cut(proxy, "evalsha")
			if _, err := w.Try(t.Context(), name); err == nil {
				t.Error("it was entered without a reply")
			}

			again := b.try(w)
			wants(t, "release of the second entry", again.Release(t.Context()), nil)

			_, err := b.worker("reentrant", setting{}).Try(t.Context(), name)
			wants(t, "another's Try", err, lock.ErrHeld)
			wants(t, "release of the first entry", lease.Release(t.Context()), nil)
			b.free()
		})
	}
}

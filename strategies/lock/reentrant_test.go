package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
)

// eachReentrant runs f on each of the locks whose holder can enter again.
func eachReentrant(t *testing.T, f func(t *testing.T, b *bench, lockName string)) {
	for _, lockName := range []string{"reentrant", "reentrant+watchdog", "reentrant-local", "redisson"} {
		t.Run(lockName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) { f(t, b, lockName) })
		})
	}
}

func reenter(t testing.TB, lease lock.Lease) (lock.Lease, error) {
	t.Helper()
	return lease.(lock.Reentrant).Reenter(t.Context())
}

func TestReentrantIsFreeWhenEachEntryWasReleased(t *testing.T) {
	t.Parallel()
	eachReentrant(t, func(t *testing.T, b *bench, lockName string) {
		holder, other := b.worker(lockName, setting{}), b.worker(lockName, setting{})
		first, second, third := b.try(holder), b.acquire(holder), b.try(holder)
		fourth, err := reenter(t, second)
		b.must(err)
		for _, lease := range []lock.Lease{first, third, fourth, second} { // in any order
			_, err := other.Try(t.Context(), name)
			wants(t, "another's Try", err, lock.ErrHeld)
			wants(t, "release", lease.Release(t.Context()), nil)
			wants(t, "release of what was released", lease.Release(t.Context()), lock.ErrLost)
		}
		b.free()
		if _, err := reenter(t, first); err == nil {
			t.Error("it was entered again after its release")
		}
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
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.try(b.worker("reentrant", setting{}))
		b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), 5*time.Second).Err())
		_, err := reenter(t, lease)
		b.must(err)
		if ttl := b.ttl(); ttl <= 5*time.Second {
			t.Errorf("after the second entry it expires in %s, want about 10s", ttl)
		}
	})
}

func TestReentrantReleaseAnswersWhatIsLeft(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		holder := b.worker("reentrant", setting{})
		leases := []lock.Lease{b.try(holder), b.try(holder)}
		for i, want := range []string{"2", "1"} {
			entries, err := b.conn.HVals(t.Context(), b.keys.Lock(name)).Result()
			if err != nil || len(entries) != 1 || entries[0] != want {
				t.Errorf("before release %d the hash counts %v, %v; want [%s]", i+1, entries, err, want)
			}
			b.must(leases[i].Release(t.Context()))
		}
		b.free()
	})
}

// What was acquired before the lock expired has no part in what the same worker acquires after.
func TestReentrantStartsAfreshWhenItHasExpired(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		holder := b.worker("reentrant", setting{})
		old := b.try(holder)
		b.expire()
		_, err := reenter(t, old)
		wants(t, "entering an expired lock again", err, lock.ErrLost)
		lease := b.try(holder)
		_, err = reenter(t, old)
		wants(t, "entering it again by the old lease", err, lock.ErrLost)
		wants(t, "renewal of the old lease", old.(lock.Renewer).Renew(t.Context()), lock.ErrLost)
		wants(t, "release of the old lease", old.Release(t.Context()), lock.ErrLost)
		again := b.try(holder)
		wants(t, "renewal", lease.(lock.Renewer).Renew(t.Context()), nil)
		wants(t, "release", lease.Release(t.Context()), nil)
		wants(t, "last release", again.Release(t.Context()), nil)
		b.free()
	})
}

func TestReentrantIsLostToWhoTookItAfterItExpired(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		holder := b.worker("reentrant", setting{})
		old := b.try(holder)
		b.expire()
		next := b.try(b.worker("reentrant", setting{}))
		_, err := reenter(t, old)
		wants(t, "entering another's lock again", err, lock.ErrLost)
		_, err = holder.Try(t.Context(), name)
		wants(t, "Try of another's lock", err, lock.ErrHeld)
		wants(t, "release of another's lock", old.Release(t.Context()), lock.ErrLost)
		wants(t, "the other's release", next.Release(t.Context()), nil)
	})
}

// An entry whose reply was lost is taken back, and the one around it is not, whether or not the server counted it.
func TestReentrantLostReplyKeepsTheCount(t *testing.T) {
	t.Parallel()
	server := testkit.Local(t)
	for what, cut := range map[string]func(*testkit.Proxy, string){
		"reply": (*testkit.Proxy).LoseReply, "command": (*testkit.Proxy).LoseCommand,
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, server)
			proxy := testkit.StartProxy(t, server)
			w := b.worker("reentrant", setting{through: proxy.Server()})
			lease := b.try(w)
			cut(proxy, "evalsha")
			if _, err := reenter(t, lease); err == nil {
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

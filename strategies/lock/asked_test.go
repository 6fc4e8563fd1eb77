package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// renewedKind is a lock by name, and "+watchdog" over one that does not renew itself.
func renewedKind(t testing.TB, lockName string) lock.Kind {
	t.Helper()
	k := kind(t, lockName)
	if !k.Renews {
		return k
	}
	k, err := lock.WithWatchdog(k)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ends waits until a lease knows that it is lost, and returns how long after start that was.
func ends(t testing.TB, lease lock.Lease, start time.Time) time.Duration {
	t.Helper()
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); cause != lock.ErrLost {
		t.Errorf("it ended because of %v, want %v", cause, lock.ErrLost)
	}
	return time.Since(start)
}

// On the server the TTL runs while the reply is on its way. No renewal succeeds in these tests.
func TestLateReplyShortensTheLease(t *testing.T) {
	const ttl = 900 * time.Millisecond
	for _, lockName := range []string{"set-px", "reentrant", "reentrant-local", "fenced", "rw-safe", "queue", "redisson"} {
		for _, late := range []time.Duration{0, ttl - time.Millisecond, ttl + time.Second} {
			t.Run(lockName+"/"+late.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					taking := true
					l := answers(func(redis.Cmder) bool {
						if taking {
							time.Sleep(late)
						}
						return lockName != "redisson" && lockName != "queue" // whose scripts answer how long to wait
					}).open(t, renewedKind(t, lockName), param.Values{"ttl": ttl.String(), "renewals": "100"})
					start := time.Now()
					lease, err := l.Try(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					taking = false
					if late > ttl && lease.Context().Err() == nil {
						t.Error("it holds a lock that had expired before the reply came")
					}
					if held, want := ends(t, lease, start), max(ttl, late); held != want {
						t.Errorf("it ended %s after the request, want %s", held, want)
					}
					_ = lease.Release(t.Context())
				})
			})
		}
	}
}

// What counts is the attempt that took the lock: others may have held it for longer than the TTL before.
func TestLeaseBeginsWithTheLastAttempt(t *testing.T) {
	const ttl = 900 * time.Millisecond
	for _, lockName := range []string{"set-px", "reentrant", "reentrant-local", "fenced", "rw-safe"} {
		t.Run(lockName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent time.Time
				attempts := 0
				l := answers(func(redis.Cmder) bool {
					if attempts++; attempts <= 20 {
						sent = time.Now()
						time.Sleep(100 * time.Millisecond)
					}
					return attempts >= 20
				}).open(t, renewedKind(t, lockName), param.Values{"ttl": ttl.String(), "renewals": "100"})
				lease, err := l.Acquire(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if held := ends(t, lease, sent); held != ttl {
					t.Errorf("it ended %s after the last request, want %s", held, ttl)
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

// silent is a Locker that does not say when it asked: it takes three TTLs. Its lease can be renewed so often.
type silent struct {
	lock.Locker
	renewals int
}

const silentTTL = time.Second

func (s *silent) Acquire(context.Context, string) (lock.Lease, error) {
	time.Sleep(3 * silentTTL)
	return s, nil
}

func (s *silent) Context() context.Context      { return context.Background() }
func (s *silent) Release(context.Context) error { return nil }
func (s *silent) Renew(context.Context) error {
	if s.renewals--; s.renewals < 0 {
		return errNoServer
	}
	return nil
}

func TestWatchdogRenewsALockThatWasWaitedFor(t *testing.T) {
	open := func(t testing.TB, renewals int) lock.Locker {
		k, err := lock.WithWatchdog(lock.Kind{
			Name: "silent", Renews: true,
			New: func(lock.Env) (lock.Locker, error) { return &silent{renewals: renewals}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := k.New(lock.Env{Params: param.Values{"ttl": silentTTL.String()}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		lease, err := open(t, 1).Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if held, want := ends(t, lease, start), 4*silentTTL; held != want {
			t.Errorf("it ended %s after the acquisition began, want %s: a TTL after the one renewal", held, want)
		}
		_ = lease.Release(t.Context())

		if _, err := open(t, 0).Acquire(t.Context(), name); !errors.Is(err, errNoServer) {
			t.Errorf("without that renewal: %v, want %v", err, errNoServer)
		}
	})
}

package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// counter counts renewals.
type counter struct{ n atomic.Int64 }

func (c *counter) observe(_ context.Context, at step.Name) {
	if at == step.Renewed {
		c.n.Add(1)
	}
}

// renewals waits until there have been n.
func (b *bench) renewals(c *counter, n int) {
	b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); c.n.Load() < int64(n); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("the lock was renewed %d times, want %d", c.n.Load(), n)
		}
	}
}

// often is a watchdog with nothing to wait for.
var often = param.Values{"renew": "5ms"}

// eachWatched runs tests that are not parallel: some look for goroutines that are left.
func eachWatched(t *testing.T, f func(t *testing.T, b *bench, lockName string)) {
	for _, lockName := range []string{"set-px+watchdog", "reentrant+watchdog", "fenced+watchdog"} {
		t.Run(lockName, func(t *testing.T) {
			testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
				f(t, newBench(t, s), lockName)
			})
		})
	}
}

// The watchdog renews for a stuck holder too: the flaw that the doc comment admits.
func TestWatchdogRenewsForAHolderThatIsStuck(t *testing.T) {
	eachWatched(t, func(t *testing.T, b *bench, lockName string) {
		renewals := counter{}
		stuck := b.worker(lockName, setting{steps: renewals.observe, params: often})
		lease := b.try(stuck)

		for range 3 { // each time the TTL is as good as over
			b.must(b.conn.PExpire(t.Context(), b.keys.Lock(name), 5*time.Second).Err())
			b.renewals(&renewals, int(renewals.n.Load())+2) // the first may have been under way
			if ttl := b.ttl(); ttl <= 5*time.Second {
				t.Errorf("it was not renewed: it expires in %s", ttl)
			}
		}

		_, err := b.worker(lockName, setting{}).Try(t.Context(), name)
		wants(t, "another's Try", err, lock.ErrHeld)
		if err := lease.Context().Err(); err != nil || !stuck.Promises().NoticesLoss {
			t.Errorf("the lease ended: %v; notices loss: %v", err, stuck.Promises().NoticesLoss)
		}

		wants(t, "release", lease.Release(t.Context()), nil)
	})
}

func TestWatchdogStopsAtRelease(t *testing.T) {
	eachWatched(t, func(t *testing.T, b *bench, lockName string) {
		before := goleak.IgnoreCurrent()
		renewals := counter{}
		w := b.worker(lockName, setting{steps: renewals.observe, params: often})

		lease := b.try(w)
		b.renewals(&renewals, 1)
		wants(t, "release", lease.Release(t.Context()), nil)

		n := renewals.n.Load()
		b.free()

		if err := lease.Context().Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("the context of a released lease: %v, want %v", err, context.Canceled)
		}
		if cause := context.Cause(lease.Context()); errors.Is(cause, lock.ErrLost) {
			t.Error("a released lease says that it was lost")
		}

		if w.Locker.(interface{ Close() error }).Close(); renewals.n.Load() != n {
			t.Error("it was renewed after its release")
		}

		_ = w.conn.Close()
		goleak.VerifyNone(t, before)
	})
}

// A renewal that is under way when the release begins is waited for before the
// lock is given back.
func TestWatchdogReleaseWaitsForARenewal(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		renewing := make(chan struct{})
		waited := atomic.Bool{}
		steps := func(ctx context.Context, at step.Name) {
			if at != step.Renewed || waited.Load() {
				return
			}
			close(renewing)
			<-ctx.Done() // the release has begun
			for range 50 {
				if b.conn.PTTL(t.Context(), b.keys.Lock(name)).Val() == gone {
					t.Error("the lock was given back while a renewal was under way")
					break
				}
			}
			waited.Store(true)
		}
		lease := b.try(b.worker("set-px+watchdog", setting{params: often, steps: steps}))

		<-renewing
		wants(t, "release", lease.Release(t.Context()), nil)
		if !waited.Load() {
			t.Error("the release did not wait for the renewal")
		}
	})
}

// A lock that could not be renewed for a whole TTL may be another's.
func TestWatchdogGivesUpAfterATTLWithoutRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl, every = 60 * time.Millisecond, 5 * time.Millisecond
		dials := atomic.Int64{}
		rdb := answers(func(redis.Cmder) bool { return true }).client()
		defer rdb.Close()
		l, err := renewedKind(t, "set-px").New(lock.Env{
			Redis:  rdb,
			Params: param.Values{"ttl": ttl.String(), "renew": every.String()},
			Key: func(name string) string {
				return name
			},
			NewClient: func(context.Context) (*redis.Client, error) {
				dials.Add(1)
				return nil, errNoServer
			},
		})
		if err != nil {
			t.Fatal(err)
		}

		start := time.Now()
		lease := testkit.Must(l.Try(t.Context(), name))(t)
		held := ends(t, lease, start)
		if n := dials.Load(); held != ttl || n < int64(ttl/every)-1 {
			t.Errorf("it gave up after %s and %d renewals, want %s and one each %s", held, n, ttl, every)
		}
		_ = lease.Release(t.Context()) // it is lost
	})
}

// Renewals do not wait for the worker's connection, and all of a worker's leases share one.
func TestWatchdogRenewsOnAConnectionOfItsOwn(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		renewals := counter{}
		dials := atomic.Int64{}
		w := b.worker("set-px+watchdog", setting{
			steps: renewals.observe, params: often,
			dial: func(ctx context.Context) (*redis.Client, error) {
				dials.Add(1)
				return dialer(b.server)(ctx)
			},
		})

		one, err := w.Try(t.Context(), "one")
		b.must(err)
		other, err := w.Try(t.Context(), "other")
		b.must(err)

		tx := w.conn.Conn() // the worker's only connection is taken
		b.must(tx.Ping(t.Context()).Err())
		b.renewals(&renewals, 4)
		b.must(tx.Close())

		wants(t, "release", one.Release(t.Context()), nil)
		wants(t, "other release", other.Release(t.Context()), nil)
		if dials.Load() != 1 {
			t.Errorf("renewals opened %d connections, want 1", dials.Load())
		}
	})
}

// renewedKind is a lock by name, and "+watchdog" over one that does not renew itself.
func renewedKind(t testing.TB, lockName string) lock.Kind {
	t.Helper()
	k := kind(t, lockName)
	if !k.Renews {
		return k
	}
	k = testkit.Must(lock.WithWatchdog(k))(t)
	return k
}

// ends waits until a lease knows that it is lost, and returns how long after
// start that was.
func ends(t testing.TB, lease *lock.Lease, start time.Time) time.Duration {
	t.Helper()
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); cause != lock.ErrLost {
		t.Errorf("it ended because of %v, want %v", cause, lock.ErrLost)
	}
	return time.Since(start)
}

// On the server the TTL runs while the reply is on its way. No renewal succeeds
// in these tests.
func TestLateReplyShortensTheLease(t *testing.T) {
	t.Parallel()
	const ttl = 900 * time.Millisecond
	for _, lockName := range []string{"set-px", "reentrant", "fenced", "rw-safe", "queue"} {
		for _, late := range []time.Duration{0, ttl - time.Millisecond, ttl + time.Second} {
			t.Run(lockName+"/"+late.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					takenLate(t, lockName, ttl, late)
				})
			})
		}
	}
}

// takenLate takes a lock whose reply is late, and checks when its lease ends.
func takenLate(t *testing.T, lockName string, ttl, late time.Duration) {
	taking := true
	l := answers(func(redis.Cmder) bool {
		if taking {
			time.Sleep(late)
		}
		return lockName != "queue" // whose script answers how long to wait
	}).open(t, renewedKind(t, lockName), param.Values{"ttl": ttl.String()})

	start := time.Now()
	lease := testkit.Must(l.Try(t.Context(), name))(t)
	taking = false

	if late > ttl && lease.Context().Err() == nil {
		t.Error("it holds a lock that had expired before the reply came")
	}
	held := ends(t, lease, start)
	if want := max(ttl, late); held != want {
		t.Errorf("it ended %s after the request, want %s", held, want)
	}
	_ = lease.Release(t.Context())
}

// What counts is the attempt that took the lock: others may have held it for
// longer than the TTL before.
func TestLeaseBeginsWithTheLastAttempt(t *testing.T) {
	t.Parallel()
	const ttl = 900 * time.Millisecond
	for _, lockName := range []string{"set-px", "reentrant", "fenced", "rw-safe"} {
		t.Run(lockName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent time.Time
				attempts := 0
				l := answers(func(redis.Cmder) bool {
					attempts++
					if attempts <= 20 {
						sent = time.Now()
						time.Sleep(100 * time.Millisecond)
					}
					return attempts >= 20
				}).open(t, renewedKind(t, lockName), param.Values{"ttl": ttl.String()})

				lease := testkit.Must(l.Acquire(t.Context(), name))(t)
				if held := ends(t, lease, sent); held != ttl {
					t.Errorf("it ended %s after the last request, want %s", held, ttl)
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

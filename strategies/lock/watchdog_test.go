package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// counter counts renewals.
type counter struct{ n atomic.Int64 }

func (c *counter) observe(_ context.Context, at step.Name) {
	if at == step.Renewed {
		c.n.Add(1)
	}
}

// renewals waits until there have been so many.
func (b *bench) renewals(c *counter, n int) {
	b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); c.n.Load() < int64(n); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("the lock was renewed %d times, want %d", c.n.Load(), n)
		}
	}
}

// often is a watchdog with nothing to wait for.
var often = param.Values{"renew": "5ms"}

func eachWatched(t *testing.T, f func(t *testing.T, b *bench, lockName string)) {
	for _, lockName := range []string{"set-px+watchdog", "reentrant+watchdog", "fenced+watchdog"} {
		t.Run(lockName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) { f(t, b, lockName) })
		})
	}
}

// A stuck holder is renewed for as gladly as one that works: the flaw that the doc comment admits.
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

func TestWatchdogNoticesALoss(t *testing.T) {
	eachWatched(t, func(t *testing.T, b *bench, lockName string) {
		lease := b.try(b.worker(lockName, setting{params: often}))
		b.expire()
		next := b.try(b.worker(lockName, setting{}))
		b.cancelled(lease)
		wants(t, "release of a lost lock", lease.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
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

// A renewal that is under way when the release begins is waited for before the lock is given back.
func TestWatchdogReleaseWaitsForARenewal(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		renewing, waited := make(chan struct{}), atomic.Bool{}
		lease := b.try(b.worker("set-px+watchdog", setting{params: often, steps: func(ctx context.Context, at step.Name) {
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
		}}))
		<-renewing
		wants(t, "release", lease.Release(t.Context()), nil)
		if !waited.Load() {
			t.Error("the release did not wait for the renewal")
		}
	})
}

// A lock that could not be renewed for a whole TTL may be another's.
func TestWatchdogGivesUpAfterATTLWithoutRenewal(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		down := errors.New("no connection")
		dials := atomic.Int64{}
		w := b.worker("set-px+watchdog", setting{
			params: param.Values{"ttl": "60ms", "renew": "5ms"},
			dial: func(context.Context) (*redis.Client, error) {
				dials.Add(1)
				return nil, down
			},
		})
		taken := time.Now()
		lease := b.try(w)
		b.cancelled(lease)
		if held := time.Since(taken); held < 50*time.Millisecond || dials.Load() < 2 {
			t.Errorf("it gave up after %s and %d renewals, want a TTL of 60ms and several", held, dials.Load())
		}
	})
}

// Renewals do not wait for the worker's connection, and all of a worker's leases share one.
func TestWatchdogRenewsOnAConnectionOfItsOwn(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		renewals, dials := counter{}, atomic.Int64{}
		w := b.worker("set-px+watchdog", setting{
			steps: renewals.observe, params: often,
			dial: func(ctx context.Context) (*redis.Client, error) {
				dials.Add(1)
				c, err := b.server.Dial(ctx)
				if err != nil {
					return nil, err
				}
				return c.Client, nil
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

func TestWatchdogLeavesANonReentrantLockAlone(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.try(b.worker("set-px+watchdog", setting{}))
		_, err := reenter(t, lease)
		wants(t, "entering a lock again that is not reentrant", err, lock.ErrHeld)
		wants(t, "release", lease.Release(t.Context()), nil)
	})
}

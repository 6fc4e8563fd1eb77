package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// entries is how often the lock's holder has entered.
func entries(c *workers) (total int) {
	c.Helper()
	counts, err := c.conn.HVals(c.Context(), c.keys.Lock(name)).Result()
	if err != nil {
		c.Fatal(err)
	}
	for _, count := range counts {
		total += len(count) * int(count[0]-'0')
	}
	return total
}

// Nothing but the message can wake the waiters: their holder has 30 s left.
func TestRedissonSubscribesOnceAProcessWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), nil)
		lease := b.acquire(c.worker(nil, nil))
		if n := c.subscribers(":freed"); n != 0 {
			t.Errorf("nobody waits, and %d listen", n)
		}
		one, other := c.wait(t.Context()), c.wait(t.Context())
		until(t, "one connection listens for two waiters", func() bool { return c.subscribers(":freed") == 1 })
		release(t, lease)
		select {
		case <-one.done:
		case <-other.done:
			one, other = other, one
		case <-time.After(soon):
			t.Fatal("nobody was woken")
		}
		c.waits(other, "both were let in")
		release(t, c.taken(one))
		release(t, c.taken(other))
		until(t, "nobody waits and nobody listens", func() bool { return c.subscribers(":freed") == 0 })
	})
}

// The message of a release may be sent while the subscription is gone. It must not cost the 30 s that the holder had.
func TestRedissonSurvivesALostSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	c := b.workers(kind(t, "redisson"), nil)
	lease := b.acquire(c.worker(nil, nil))
	waiter := c.wait(t.Context())
	until(t, "the waiter listens", func() bool { return c.subscribers(":freed") == 1 })
	if err := b.conn.Do(t.Context(), "client", "kill", "type", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	release(t, lease)
	release(t, c.taken(waiter))
}

func TestRedissonLostMessageCostsTheTTLAtMost(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), param.Values{"lease": "1m0s"})
		l, polls := c.worker(nil, nil), int64(0)
		for ttl := 150 * time.Millisecond; polls == 0; ttl *= 4 { // on a busy machine it may be over before anybody looks
			dead := b.workers(kind(t, "redisson"), param.Values{"lease": ttl.String()}).worker(nil, nil)
			b.acquire(dead) // and crashes
			release(t, b.acquire(l))
			polls = l.(lock.Poller).Polls()
		}
		if polls > 20 {
			t.Errorf("it looked %d times: it must sleep for as long as the holder has", polls)
		}
	})
}

func TestRedissonEntersAgain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), nil)
		other := c.worker(nil, nil)
		first := b.acquire(c.worker(nil, nil))
		second, err := first.(lock.Reentrant).Reenter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		third, err := second.(lock.Reentrant).Reenter(t.Context())
		if err != nil || entries(c) != 3 {
			t.Fatalf("third entry: %v; there are %d, want 3", err, entries(c))
		}
		for i, lease := range []lock.Lease{first, third, second} {
			if _, err := other.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("Try after %d releases: %v, want %v", i, err, lock.ErrHeld)
			}
			release(t, lease)
			releaseFindsItLost(t, lease)
			if got := entries(c); got != 2-i {
				t.Errorf("%d entries remain after %d releases", got, i+1)
			}
		}
		c.leavesNothing()
	})
}

func TestRedissonDoesNotReenterALostLock(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), param.Values{"lease": "1m0s"})
		lease := b.acquire(c.worker(nil, nil))
		b.conn.Del(t.Context(), c.keys.Lock(name))
		if _, err := lease.(lock.Reentrant).Reenter(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Reenter: %v, want %v although the lock is free", err, lock.ErrLost)
		}
		next := b.acquire(c.worker(nil, nil))
		releaseFindsItLost(t, lease)
		release(t, next)
	})
}

// What was acquired before the lock was lost has no part in what the same worker acquires after.
func TestRedissonStartsAfreshWhenItWasLost(t *testing.T) {
	t.Parallel()
	for what, params := range map[string]param.Values{"watchdog": nil, "lease": {"lease": "1m0s"}} {
		t.Run(what, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				c := b.workers(kind(t, "redisson"), params)
				l := c.worker(nil, nil)
				old := b.acquire(l)
				b.conn.Del(t.Context(), c.keys.Lock(name))
				lease := b.acquire(l)
				_, err := reenter(t, old)
				wants(t, "entering the lost lock again", err, lock.ErrLost)
				releaseFindsItLost(t, old)
				again, err := l.Try(t.Context(), name)
				if err != nil || entries(c) != 2 {
					t.Fatalf("Try of what it holds: %v; there are %d entries, want 2", err, entries(c))
				}
				release(t, lease)
				release(t, again)
				c.leavesNothing()

				old = b.acquire(l)
				b.conn.Del(t.Context(), c.keys.Lock(name))
				other := b.acquire(c.worker(nil, nil))
				_, err = l.Try(t.Context(), name)
				wants(t, "Try of another's lock", err, lock.ErrHeld)
				release(t, other)
				releaseFindsItLost(t, old)
			})
		})
	}
}

// A release whose outcome is unknown ends the hold: the lock is not entered again under a watchdog that has stopped.
func TestRedissonUnknownReleaseEndsTheHold(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := testkit.StartProxy(t, b.server)
		c := b.workers(kind(t, "redisson"), param.Values{"lease": "1m0s"})
		release(t, b.acquire(c.worker(nil, nil))) // the server knows the scripts from here on
		c.through = proxy.Server()
		l := c.worker(nil, nil)
		lease := b.acquire(l)
		proxy.LoseCommand("evalsha")
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("a release that was not sent: %v", err)
		}
		_, err := l.Try(t.Context(), name)
		wants(t, "Try of what may still be held", err, lock.ErrHeld)
		release(t, lease) // once more
		c.leavesNothing()
	})
}

func TestRedissonWatchdogRenewsUntilTheLockIsLost(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c, lease := b.outlivesRedisson(600 * time.Millisecond)
		b.conn.Del(t.Context(), c.keys.Lock(name))
		select {
		case <-lease.Context().Done():
		case <-time.After(soon):
			t.Fatal("the watchdog did not notice that the lock is gone")
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("the lease ended with %v, want %v", cause, lock.ErrLost)
		}
		releaseFindsItLost(t, lease)
	})
}

func TestRedissonLeaseEnds(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), param.Values{"lease": "30ms"})
		l := c.worker(nil, nil)
		for _, p := range []lock.Promises{l.Promises(), c.kind.PromisesWith(c.params)} {
			if p.NoticesLoss {
				t.Error("without a watchdog it promises to notice a loss")
			}
		}
		lease := b.acquire(l)
		until(t, "the lease has ended", func() bool { return b.conn.Exists(t.Context(), c.keys.Lock(name)).Val() == 0 })
		releaseFindsItLost(t, lease)
	})
}

// outlivesRedisson returns a lease that was renewed for two TTLs. One that ended is tried again with a longer TTL,
// because the machine may stop for about as long.
func (b *bench) outlivesRedisson(ttl time.Duration) (*workers, lock.Lease) {
	b.Helper()
	c := b.workers(kind(b, "redisson"), param.Values{"ttl": ttl.String()})
	var renewals atomic.Int64
	lease := b.acquire(c.worker(whenever(step.Renewed, func() { renewals.Add(1) }), nil))
	until(b, "renewed for two TTLs", func() bool { return renewals.Load() >= 6 || lease.Context().Err() != nil })
	cause := context.Cause(lease.Context())
	switch {
	case cause == nil && entries(c) == 1:
		return c, lease
	case ttl > 10*time.Second:
		b.Fatalf("after %d renewals: %v", renewals.Load(), cause)
	}
	_ = lease.Release(b.Context()) // it may be lost
	return b.outlivesRedisson(4 * ttl)
}

func TestRedissonLostReplyGivesTheEntryBack(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := testkit.StartProxy(t, b.server)
		c := b.workers(kind(t, "redisson"), nil)
		release(t, b.acquire(c.worker(nil, nil))) // the server knows the scripts from here on
		c.through = proxy.Server()
		l := c.worker(nil, nil)
		proxy.LoseReply("evalsha")
		if _, err := l.Acquire(t.Context(), name); err == nil || entries(c) != 0 {
			t.Errorf("acquisition: %v; then %d entries, want none", err, entries(c))
		}
		lease := b.acquire(l)
		proxy.LoseReply("evalsha")
		if _, err := lease.(lock.Reentrant).Reenter(t.Context()); err == nil || entries(c) != 1 {
			t.Errorf("second entry: %v; then %d entries, want 1", err, entries(c))
		}
		release(t, lease)
		c.leavesNothing()
	})
}

func TestRedissonContextEndsTheWait(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), nil)
		lease := b.acquire(c.worker(nil, nil))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := c.wait(ctx)
		cancel()
		<-waiter.done
		if !errors.Is(waiter.err, context.Canceled) {
			t.Errorf("Acquire: %v, want %v", waiter.err, context.Canceled)
		}
		release(t, lease)
		c.leavesNothing()
	})
}

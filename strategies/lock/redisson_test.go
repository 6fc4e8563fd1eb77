package lock_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// entries is how often the lock's holder has entered.
func entries(c *workers) (total int) {
	c.Helper()
	counts := testkit.Must(c.conn.HVals(c.Context(), c.keys.Lock(name)).Result())(c)
	for _, count := range counts {
		total += len(count) * int(count[0]-'0')
	}
	return total
}

// Nothing but the message can wake the waiters: their holder has 30 s left.
func TestRedissonSubscribesOnceAProcessWhileSomebodyWaits(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), nil)
		lease := b.acquire(c.worker(nil, nil))
		if n := c.subscribers(":freed"); n != 0 {
			t.Errorf("nobody waits, and %d listen", n)
		}
		one := c.wait(t.Context())
		other := c.wait(t.Context())
		until(t, "one connection listens for two waiters", func() bool {
			return c.subscribers(":freed") == 1
		})

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
		until(t, "nobody waits and nobody listens", func() bool {
			return c.subscribers(":freed") == 0
		})
	})
}

// The message of a release may be sent while the subscription is gone. It must not cost
// the 30 s that the holder had.
func TestRedissonSurvivesALostSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	c := b.workers(kind(t, "redisson"), nil)
	lease := b.acquire(c.worker(nil, nil))
	waiter := c.wait(t.Context())
	until(t, "the waiter listens", func() bool {
		return c.subscribers(":freed") == 1
	})
	testkit.Succeeds(t, b.conn.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	release(t, lease)
	release(t, c.taken(waiter))
}

func TestRedissonLostMessageCostsTheTTLAtMost(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "redisson"), param.Values{"lease": "1m0s"})
		l := c.worker(nil, nil)
		polls := int64(0)
		// on a busy machine it may be over before anybody looks
		for ttl := 150 * time.Millisecond; polls == 0; ttl *= 4 {
			dead := b.workers(kind(t, "redisson"), param.Values{"lease": ttl.String()}).worker(nil, nil)
			b.acquire(dead) // and crashes
			release(t, b.acquire(l))
			polls = l.(interface{ Polls() int64 }).Polls()
		}

		if polls > 20 {
			t.Errorf("it looked %d times: it must sleep for as long as the holder has", polls)
		}
	})
}

// A release whose outcome is unknown ends the hold: the lock is not entered again under
// a watchdog that has stopped.
func TestRedissonUnknownReleaseEndsTheHold(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
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
		wants(t, "the same release again", lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestRedissonLostReplyGivesTheEntryBack(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		proxy := testkit.StartProxy(t, b.server)
		c := b.workers(kind(t, "redisson"), released)
		release(t, b.acquire(c.worker(nil, nil))) // the server knows the scripts from here on

		c.through = proxy.Server()
		l := c.worker(nil, nil)

		proxy.LoseReply("evalsha")
		if _, err := l.Acquire(t.Context(), name); err == nil || entries(c) != 0 {
			t.Errorf("acquisition: %v; then %d entries, want none", err, entries(c))
		}

		lease := b.acquire(l)
		proxy.LoseReply("evalsha")
		if _, err := l.Try(t.Context(), name); err == nil || entries(c) != 1 {
			t.Errorf("second entry: %v; then %d entries, want 1", err, entries(c))
		}

		release(t, lease)
		b.free()
	})
}

// The client sends a release again whose reply was lost: it is answered what the first
// one was, and counts down once.
func TestRedissonReleaseSentAgainCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	c := b.workers(kind(t, "redisson"), nil)
	release(t, b.acquire(c.worker(nil, nil))) // the server knows the scripts from here on

	proxy := testkit.StartProxy(t, b.server)
	conn, err := proxy.Server().Dialer("").WithResends().Dial(t.Context())
	b.must(err)
	defer conn.Close()

	l, err := kind(t, "redisson").New(lock.Env{
		Redis:     conn.Client,
		NewClient: dialer(b.server),
		Key:       b.keys.Lock,
		Params:    unhurried(nil),
		Process:   c.process,
	})
	b.must(err)
	defer l.(io.Closer).Close()
	outer := b.acquire(l)
	inner := b.acquire(l)

	proxy.LoseReply("evalsha")
	release(t, inner)
	if n := entries(c); n != 1 {
		t.Errorf("after the inner release %d entries are left, want 1", n)
	}

	proxy.LoseReply("evalsha")
	release(t, outer)
	b.free()
}

// Redisson's watchdog renews a lock after each third of its 30 s: every 10 s, and not every
// 30 as an article says, when the lock would be gone.
func TestRedissonRenewsEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		renewals := answers(func(redis.Cmder) bool {
			at = append(at, time.Since(start))
			return true
		})
		takes := answers(func(redis.Cmder) bool {
			return false // its script answers 0: it is taken
		})
		rdb := takes.client()
		defer rdb.Close()
		l := testkit.Must(kind(t, "redisson").New(lock.Env{
			Redis: rdb,
			Key: func(name string) string {
				return name
			},
			NewClient: func(context.Context) (*redis.Client, error) {
				return renewals.client(), nil
			},
		}))(t)
		defer l.(io.Closer).Close()

		lease := testkit.Must(l.Try(t.Context(), name))(t)
		time.Sleep(35 * time.Second)
		release(t, lease)
		want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("it was renewed after %v, want %v", at, want)
		}
	})
}

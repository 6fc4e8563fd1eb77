package lock_test

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// workers are those of one process, and take locks of one kind.
type workers struct {
	*bench
	kind    lock.Kind
	process *lock.ProcessState
	params  param.Values
	through *backend.Server
	dial    func(context.Context) (*redis.Client, error) // nil: to through
}

func (b *bench) workers(kind lock.Kind, params param.Values) *workers {
	c := &workers{
		bench: b, kind: kind, process: &lock.ProcessState{}, params: params, through: b.server,
	}
	b.Cleanup(func() {
		if err := c.process.Close(); err != nil {
			b.Errorf("closing the process: %v", err)
		}
	})
	return c
}

// worker is one more of them. steps and now may be nil.
func (c *workers) worker(steps step.Observer, now func() time.Time) lock.Locker {
	c.Helper()
	l, _ := c.connected(steps, now)
	return l
}

func (c *workers) connected(
	steps step.Observer, now func() time.Time) (lock.Locker, *redisconn.Conn) {

	c.Helper()
	l := c.open(c.kind, setting{
		through: c.through, steps: steps, params: c.params, now: now, dial: c.dial, process: c.process,
	})
	return l.Locker, l.conn
}

// taking is an acquisition that goes on.
type taking struct {
	waits *step.Gate
	done  chan struct{}
	lease *lock.Lease
	err   error
}

// wait starts an acquisition by a worker of its own and returns when it waits.
func (c *workers) wait(ctx context.Context) *taking {
	c.Helper()
	w := c.hold(ctx)
	w.waits.Open()
	return w
}

// hold is wait for a worker that is held before it waits, until waits is opened
// or ctx ends.
func (c *workers) hold(ctx context.Context) *taking {
	c.Helper()
	return c.takes(func(l lock.Locker) (*lock.Lease, error) {
		return l.Acquire(ctx, name)
	})
}

// reads is hold for a reader, in a process of its own.
func (c *workers) reads(ctx context.Context, params param.Values) *taking {
	c.Helper()
	return c.bench.workers(c.kind, params).takes(func(l lock.Locker) (*lock.Lease, error) {
		return l.(lock.SharedLocker).AcquireShared(ctx, name)
	})
}

func (c *workers) takes(take func(lock.Locker) (*lock.Lease, error)) *taking {
	c.Helper()
	w := &taking{waits: step.Hold(step.Waiting), done: make(chan struct{})}
	l := c.worker(w.waits.Observe, nil)

	go func() {
		defer close(w.done)
		w.lease, w.err = take(l)
	}()

	c.Cleanup(func() {
		w.waits.Open()
		<-w.done
	})

	select {
	case <-w.waits.Reached():
	case <-w.done:
		c.Fatalf("an acquisition did not wait: %v", w.err)
	}
	return w
}

// taken returns the lease of an acquisition that must end soon.
func (c *workers) taken(w *taking) *lock.Lease {
	c.Helper()
	select {
	case <-w.done:
	case <-time.After(soon):
		c.Fatalf("the lock was not taken in %s", soon)
	}
	if w.err != nil {
		c.Fatal(w.err)
	}
	return w.lease
}

// waits fails if an acquisition has ended.
func (c *workers) waits(w *taking, what string) {
	c.Helper()
	select {
	case <-w.done:
		c.Errorf("%s: it took the lock (%v)", what, w.err)
	default:
	}
}

// leavesNothing fails if a lock's keys still exist.
func (c *workers) leavesNothing() {
	c.Helper()
	keys := c.kind.AllKeys(c.keys.Lock(name))
	n, err := c.conn.Exists(context.WithoutCancel(c.Context()), keys...).Result()
	if err != nil || n != 0 {
		c.Errorf("%d of %q were left behind (%v)", n, keys, err)
	}
}

// subscribers is how many connections listen to the lock's channel.
func (c *workers) subscribers(suffix string) int64 {
	c.Helper()
	channel := c.keys.Lock(name) + suffix
	counts := testkit.Must(c.conn.PubSubNumSub(c.Context(), channel).Result())(c)
	return counts[channel]
}

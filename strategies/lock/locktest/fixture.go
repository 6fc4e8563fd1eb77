package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A fixture is what one check works with.
type fixture struct {
	testing.TB
	factory  Factory
	promises lock.Promises
	ctx      context.Context // ends long after the check should have
	missing  string          // what the check lacks
	needless bool            // the check does not apply to this lock
}

// newFixture returns a fixture whose context has a deadline, so that a lock that hangs fails in the call that hangs.
func newFixture(t testing.TB, factory Factory) *fixture {
	if factory.TTL == 0 {
		factory.TTL = 200 * time.Millisecond
	}
	if factory.Patience == 0 {
		factory.Patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*factory.Patience)
	t.Cleanup(cancel)
	return &fixture{TB: t, factory: factory, ctx: ctx}
}

// unchecked ends a check that lacks something.
func (f *fixture) unchecked(why string) {
	f.Helper()
	f.missing = why
	f.Skip("unchecked: " + why)
}

// skip ends a check that does not apply.
func (f *fixture) skip(why string) {
	f.Helper()
	f.needless = true
	f.Skip(why)
}

// ttl is a TTL that the check waits for.
func (f *fixture) ttl() time.Duration { return f.factory.TTL }

// patience is the longest time for what may take a TTL, or no time at all. It passes only if the lock fails.
func (f *fixture) patience() time.Duration { return f.factory.Patience }

// longTTL and longTimeout do not pass during a check.
const longTTL, longTimeout = 10 * time.Minute, 10 * time.Minute

// open makes a Locker, and closes it after the check.
func (f *fixture) open(w Worker) lock.Locker {
	f.Helper()
	if w.TTL == 0 {
		w.TTL = longTTL
	}
	if w.Timeout == 0 {
		w.Timeout = longTimeout
	}
	l := f.factory.Open(f.TB, w)
	if c, ok := l.(io.Closer); ok {
		f.Cleanup(func() { _ = c.Close() }) // the check may have crashed it
	}
	return l
}

// worker makes a Locker whose TTL and time-out do not pass during a check.
func (f *fixture) worker() lock.Locker { return f.open(Worker{}) }

// name returns the name of a lock that no other check and no earlier run has used.
func (f *fixture) name() string { return "locktest-" + rand.Text() }

// acquire takes a lock that is free, or soon will be.
func (f *fixture) acquire(l lock.Locker, name string) lock.Lease {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, f.patience())
	defer cancel()
	lease, err := l.Acquire(ctx, name)
	if err != nil {
		f.Fatalf("acquiring a free lock: %v", err)
	}
	return lease
}

// try takes a lock that has to be free.
func (f *fixture) try(l lock.Locker, name, why string) lock.Lease {
	f.Helper()
	lease, err := l.Try(f.ctx, name)
	if err != nil {
		f.Fatalf("%s: Try: %v, want the lock", why, err)
	}
	return lease
}

// release gives back a lease that is held.
func (f *fixture) release(lease lock.Lease) {
	f.Helper()
	if err := lease.Release(context.WithoutCancel(f.ctx)); err != nil {
		f.Fatalf("releasing a held lock: %v", err)
	}
}

// lost releases a lease that is no longer held.
func (f *fixture) lost(lease lock.Lease, why string) {
	f.Helper()
	if err := lease.Release(f.ctx); !errors.Is(err, lock.ErrLost) {
		f.Errorf("%s: Release: %v, want ErrLost", why, err)
	}
}

// held checks that l cannot take the lock, because someone else holds it.
func (f *fixture) held(l lock.Locker, name, why string) {
	f.Helper()
	lease, err := l.Try(f.ctx, name)
	if err == nil {
		_ = lease.Release(f.ctx)
	}
	if !errors.Is(err, lock.ErrHeld) {
		f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
	}
}

// free checks that l can take the lock, because nobody holds it.
func (f *fixture) free(l lock.Locker, name, why string) {
	f.Helper()
	f.release(f.try(l, name, why))
}

// expired makes the TTL of the lock pass, or tries until it has passed. It returns the lease that l then gets.
func (f *fixture) expired(l lock.Locker, name, why string) lock.Lease {
	f.Helper()
	if f.factory.Expire != nil {
		f.factory.Expire(f.TB, name)
	}
	lease := f.within(f.patience(), l, name)
	if lease == nil {
		f.Fatalf("%s: the lock is not free after %s", why, f.patience())
	}
	return lease
}

// within tries until l has the lock. It returns nil if an attempt fails that began after limit, however long the machine
// stopped before.
func (f *fixture) within(limit time.Duration, l lock.Locker, name string) lock.Lease {
	f.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		last := time.Now().After(deadline)
		lease, err := l.Try(f.ctx, name)
		// A lock that derives its time-outs from a short TTL may exceed one on a busy machine.
		late := f.ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded))
		switch {
		case err == nil:
			return lease
		case !late && !errors.Is(err, lock.ErrHeld):
			f.Fatalf("Try: %v, want the lock or ErrHeld", err)
		case last:
			return nil
		}
	}
}

// takeAway takes the lock from its holder, whose TTL is short, and returns the lease of the next holder.
func (f *fixture) takeAway(name string) lock.Lease {
	f.Helper()
	if f.factory.Lose != nil {
		f.factory.Lose(f.TB, name)
		return f.acquire(f.worker(), name)
	}
	if f.factory.Expire != nil {
		f.factory.Expire(f.TB, name)
	}
	next := f.within(10*f.ttl(), f.worker(), name)
	if next == nil {
		f.unchecked("the lock does not expire, and there is no hook Lose")
	}
	return next
}

// A call is what a worker does in a goroutine of its own.
type call struct {
	locker lock.Locker // of a waiter
	known  bool        // of a waiter: it certainly waits
	cancel context.CancelFunc
	done   chan struct{}
	lease  lock.Lease // lease and err are set before done is closed
	err    error
}

// start starts a call. The check does not end before the call has ended and what it took is given back.
func (f *fixture) start(ctx context.Context, do func(context.Context) (lock.Lease, error)) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.lease, c.err = do(ctx)
	}()
	f.Cleanup(func() {
		cancel()
		select {
		case <-c.done:
		case <-time.After(f.patience()):
			f.Errorf("a worker whose context has ended continues for %s", f.patience())
			return
		}
		if c.lease != nil {
			_ = c.lease.Release(context.WithoutCancel(f.ctx)) // the check may have done so
		}
	})
	return c
}

// ends waits for the call.
func (f *fixture) ends(c *call, limit time.Duration, what string) {
	f.Helper()
	select {
	case <-c.done:
	case <-time.After(limit):
		f.Fatalf("%s: nothing happened for %s", what, limit)
	}
}

// taking is how a waiter takes the lock.
type taking func(l lock.Locker, ctx context.Context, name string) (lock.Lease, error)

func exclusively(l lock.Locker, ctx context.Context, name string) (lock.Lease, error) {
	return l.Acquire(ctx, name)
}

func shared(l lock.Locker, ctx context.Context, name string) (lock.Lease, error) {
	return l.(lock.SharedLocker).AcquireShared(ctx, name)
}

// waiter starts to take a lock that is held. It returns when the worker waits, as far as that can be known.
func (f *fixture) waiter(ctx context.Context, name string, w Worker, take taking) *call {
	f.Helper()
	waiting := step.Hold(step.Waiting)
	waiting.Open()
	observe := w.Steps
	w.Steps = func(ctx context.Context, at step.Name) {
		waiting.Observe(ctx, at)
		observe.At(ctx, at)
	}
	before := f.queued(name)
	l := f.open(w)
	c := f.start(ctx, func(ctx context.Context) (lock.Lease, error) { return take(l, ctx, name) })
	c.locker = l
	if f.factory.Queued != nil {
		c.known = f.untilQueued(c, name, before+1)
		return c
	}
	select {
	case <-waiting.Reached():
		c.known = true
	case <-c.done:
	case <-time.After(f.patience()): // it does not report its steps
	}
	return c
}

func (f *fixture) queued(name string) int {
	if f.factory.Queued == nil {
		return 0
	}
	return f.factory.Queued(f.TB, name)
}

// untilQueued waits until so many workers wait, and returns false if the call ends first.
func (f *fixture) untilQueued(c *call, name string, want int) bool {
	f.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(f.patience()); time.Now().Before(deadline); <-tick.C {
		if f.queued(name) >= want {
			return true
		}
		select {
		case <-c.done:
			return false
		default:
		}
	}
	return false
}

// untilHeldAt starts a call of a worker whose steps the gate observes, and reports whether it is held there. If not,
// the call has ended: the lock does not report such a step.
func (f *fixture) untilHeldAt(gate *step.Gate, do func(context.Context) (lock.Lease, error)) (*call, bool) {
	f.Helper()
	c := f.start(f.ctx, do)
	f.Cleanup(gate.Open)
	select {
	case <-gate.Reached():
		return c, true
	case <-c.done:
		return c, false
	}
}

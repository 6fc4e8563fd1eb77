package locktest

import (
	"context"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// A call is something that a worker does in a goroutine of its own.
type call struct {
	locker lock.Locker // of a waiter
	known  bool        // of a waiter: it is known to wait
	cancel context.CancelFunc
	done   chan struct{}
	lease  lock.Lease // set, as err is, when done is closed
	err    error
}

// start starts a call. The check does not end before it has, and what it took is given back.
func (f *floor) start(ctx context.Context, do func(context.Context) (lock.Lease, error)) *call {
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
		case <-time.After(f.prompt()):
			f.Errorf("a worker whose context has ended goes on for %s", f.prompt())
			return
		}
		if c.lease != nil {
			_ = c.lease.Release(context.WithoutCancel(f.ctx)) // mostly the check has done so
		}
	})
	return c
}

// ends waits for the call.
func (f *floor) ends(c *call, limit time.Duration, what string) {
	f.Helper()
	select {
	case <-c.done:
	case <-time.After(limit):
		f.Fatalf("%s: nothing happened for %s", what, limit)
	}
}

// taking is how a waiter acquires.
type taking func(l lock.Locker, ctx context.Context, name string) (lock.Lease, error)

func exclusively(l lock.Locker, ctx context.Context, name string) (lock.Lease, error) {
	return l.Acquire(ctx, name)
}

func shared(l lock.Locker, ctx context.Context, name string) (lock.Lease, error) {
	return l.(lock.SharedLocker).AcquireShared(ctx, name)
}

// waiter starts to acquire a lock that is held and returns when it waits, as far as can be known.
func (f *floor) waiter(ctx context.Context, name string, w Worker, take taking) *call {
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
	if f.subject.Queued != nil {
		c.known = f.untilQueued(c, name, before+1)
		return c
	}
	select {
	case <-waiting.Reached():
		c.known = true
	case <-c.done:
	case <-time.After(grace):
	}
	return c
}

func (f *floor) queued(name string) int {
	if f.subject.Queued == nil {
		return 0
	}
	return f.subject.Queued(f.TB, name)
}

// untilQueued waits until so many workers wait, or the last of them does not.
func (f *floor) untilQueued(c *call, name string, want int) bool {
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

// untilHeldAt starts a call of a worker whose observer is the gate's, and reports whether it is held there. If not, the
// call is over: the lock has no such step.
func (f *floor) untilHeldAt(gate *step.Gate, do func(context.Context) (lock.Lease, error)) (*call, bool) {
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

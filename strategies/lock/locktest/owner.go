package locktest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

func secondReleaseFreesNothing(f *floor) {
	name := f.name()
	first := f.acquire(f.worker(), name)
	f.release(first)
	next := f.acquire(f.worker(), name)
	f.lost(first, "a second release")
	f.held(f.worker(), name, "after someone else's second release")
	f.release(next)
}

func lostReleaseFreesNothing(f *floor) {
	name := f.name()
	lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
	next := f.takeAway(name)
	f.lost(lease, "the release of a lock that someone else has")
	f.held(f.worker(), name, "after the release by its earlier holder")
	f.release(next)
}

// overtakenReleaseFreesNothing holds a worker that has looked whether the lock is still its own, until it is not.
func overtakenReleaseFreesNothing(f *floor) {
	name, gate := f.name(), step.Hold(step.Looked)
	var releasing atomic.Bool
	lease := f.acquire(f.open(Worker{TTL: f.ttl(), Steps: func(ctx context.Context, at step.Name) {
		if releasing.Load() {
			gate.Observe(ctx, at)
		}
	}}), name)
	releasing.Store(true)
	c, held := f.untilHeldAt(gate, func(ctx context.Context) (lock.Lease, error) { return nil, lease.Release(ctx) })
	if !held {
		return // it looks and releases at once, or does not tell
	}
	next := f.takeAway(name)
	gate.Open()
	f.ends(c, f.patience(), "a release that was overtaken")
	if !errors.Is(c.err, lock.ErrLost) {
		f.Errorf("a release that was overtaken: %v, want ErrLost", c.err)
	}
	f.held(f.worker(), name, "after the release by its earlier holder")
	f.release(next)
}

func readerFreesOnlyItself(f *floor) {
	if !f.promises.Shared {
		f.skip("it has no readers")
	}
	name := f.name()
	one, other := f.read(f.worker(), name), f.read(f.worker(), name)
	f.release(one)
	f.lost(one, "a reader's second release")
	f.held(f.worker(), name, "while another reader holds it")
	f.release(other)
}

package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func secondReleaseFreesNothing(f *fixture) {
	name := f.name()
	first := f.acquire(f.worker(), name)
	f.release(first)
	next := f.acquire(f.worker(), name)
	f.lost(first, "a second release")
	f.held(f.worker(), name, "after someone else's second release")
	f.release(next)
}

func lostReleaseFreesNothing(f *fixture) {
	name := f.name()
	lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
	next := f.takeAway(name)
	f.lost(lease, "the release of a lock that someone else has")
	f.held(f.worker(), name, "after the release by its earlier holder")
	f.release(next)
}

// overtakenReleaseFreesNothing holds a worker that has found the lock to be its own, until someone else has it.
func overtakenReleaseFreesNothing(f *fixture) {
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
		return // it compares and releases at once, or does not report the step
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

func readerFreesOnlyItself(f *fixture) {
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

// attempts is how often a check of a short TTL is made, each time with twice the TTL, because the machine may stop for
// about as long.
const attempts = 7

func renewalKeepsTheLock(f *fixture) {
	f.outlives(func(ctx context.Context, lease lock.Lease) error {
		renewer, ok := lease.(lock.Renewer)
		if !ok {
			f.skip("its leases cannot be renewed")
		}
		return renewer.Renew(ctx)
	})
}

func leaseRenewsItself(f *fixture) {
	if !f.factory.Renewing {
		f.skip("its leases do not renew themselves")
	}
	f.outlives(func(context.Context, lock.Lease) error { return nil })
}

// outlives checks that a lock is still held after three times its TTL, and can be released then.
func (f *fixture) outlives(keep func(context.Context, lock.Lease) error) {
	f.Helper()
	ttl := f.ttl()
	var err error
	for range attempts {
		name, other := f.name(), f.worker()
		lease := f.acquire(f.open(Worker{TTL: ttl}), name)
		if err = f.keeps(lease, other, name, ttl, keep); err == nil {
			f.free(other, name, "released")
			return
		}
		_ = lease.Release(f.ctx) // it may be lost
		ttl *= 2
	}
	f.Fatalf("a lock that is renewed, in each of %d attempts: %v", attempts, err)
}

// keeps renews a lease for three TTLs, while another worker tries to get the lock, and releases it.
func (f *fixture) keeps(lease lock.Lease, other lock.Locker, name string, ttl time.Duration,
	keep func(context.Context, lock.Lease) error,
) (err error) {
	tick := time.NewTicker(ttl / 16)
	defer tick.Stop()
	for end := time.Now().Add(3 * ttl); err == nil && time.Now().Before(end); <-tick.C {
		if err = keep(f.ctx, lease); err == nil {
			err = f.stillHeld(other, name)
		}
	}
	if err != nil {
		return err
	}
	return lease.Release(f.ctx)
}

var errTaken = errors.New("someone else could take the lock")

func (f *fixture) stillHeld(other lock.Locker, name string) error {
	lease, err := other.Try(f.ctx, name)
	if err == nil {
		_ = lease.Release(f.ctx)
		return errTaken
	}
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	return err
}

func renewalOfALostLockFails(f *fixture) {
	name := f.name()
	lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
	renewer, ok := lease.(lock.Renewer)
	if !ok {
		f.skip("its leases cannot be renewed")
	}
	next := f.takeAway(name)
	if err := renewer.Renew(f.ctx); !errors.Is(err, lock.ErrLost) {
		f.Errorf("renewing a lock that someone else has: %v, want ErrLost", err)
	}
	f.release(next)
}

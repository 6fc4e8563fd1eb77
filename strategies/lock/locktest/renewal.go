package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// attempts is how often a check of a short TTL is made anew because the machine stood still for about as long.
const attempts = 5

func renewalKeepsTheLock(f *floor) {
	f.outlives(func(ctx context.Context, lease lock.Lease) error {
		renewer, ok := lease.(lock.Renewer)
		if !ok {
			f.skip("its leases cannot be renewed")
		}
		return renewer.Renew(ctx)
	})
}

func leaseRenewsItself(f *floor) {
	if !f.subject.Renewing {
		f.skip("its leases do not renew themselves")
	}
	f.outlives(func(context.Context, lock.Lease) error { return nil })
}

// outlives checks that a lock is still held when its TTL has passed three times, and can be released then.
func (f *floor) outlives(keep func(context.Context, lock.Lease) error) {
	f.Helper()
	for range attempts {
		name, other := f.name(), f.worker()
		lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
		gap, err := f.keeps(lease, other, name, keep)
		if err == nil {
			f.free(other, name, "released")
			return
		}
		_ = lease.Release(f.ctx) // it may be lost
		if gap < f.ttl()/4 {
			f.Fatalf("a lock that is renewed: %v", err)
		}
	}
	f.unchecked("the machine stood still for too long each time")
}

// keeps renews a lease for three TTLs, while another worker tries to get the lock, and releases it. It returns the longest
// time between two renewals too: an error that comes after a long one may be the machine's fault.
func (f *floor) keeps(lease lock.Lease, other lock.Locker, name string, keep func(context.Context, lock.Lease) error,
) (gap time.Duration, err error) {
	tick := time.NewTicker(f.ttl() / 16)
	defer tick.Stop()
	last := time.Now()
	for end := last.Add(3 * f.ttl()); err == nil && last.Before(end); <-tick.C {
		start := time.Now()
		if err = keep(f.ctx, lease); err == nil {
			err = f.stillHeld(other, name)
		}
		gap, last = max(gap, time.Since(last)), start
	}
	if err == nil {
		err = lease.Release(f.ctx)
		gap = max(gap, time.Since(last))
	}
	return gap, err
}

var errTaken = errors.New("someone else could take the lock")

func (f *floor) stillHeld(other lock.Locker, name string) error {
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

func renewalOfALostLockFails(f *floor) {
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

package locktest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/strategies/lock"
)

func renewalKeepsTheLock(f *fixture) {
	f.outlives(func(lease *lock.Lease) error {
		return f.renewable(lease).Renew(f.Ctx)
	})
}

// renewable returns a lease that can be renewed. If it cannot, the check ends.
func (f *fixture) renewable(lease *lock.Lease) *lock.Lease {
	f.Helper()
	if lease.Renew == nil {
		f.NotApplicable("its leases cannot be renewed")
	}
	return lease
}

func leaseRenewsItself(f *fixture) {
	if !f.factory.Renewing {
		f.NotApplicable("its leases do not renew themselves")
	}
	f.outlives(func(*lock.Lease) error { return nil })
}

// attempts is how often a check of a short TTL is made, each time with twice the TTL: the
// machine may stop for as long.
const attempts = 7

// outlives checks that a lock is still held after three times its TTL, and can
// be released then. keep is called about every sixteenth of the TTL, and renews the lease,
// or does nothing of one that renews itself. One attempt of several has to succeed.
func (f *fixture) outlives(keep func(*lock.Lease) error) {
	f.Helper()
	ttl := f.factory.TTL
	var err error
	for range attempts {
		f.name = newName()
		other := f.worker()
		lease := f.acquire(f.open(Worker{TTL: ttl}))

		// That it is renewed shows in that another worker is kept out all the time.
		err = nil
		end := time.Now().Add(3 * ttl)
		for err == nil && time.Now().Before(end) {
			err = keep(lease)
			if err == nil {
				err = f.keptOut(other)
			}
			time.Sleep(ttl / 16)
		}

		err = errors.Join(err, lease.Release(f.Ctx))
		if err == nil {
			f.checkFree(other, "released")
			return
		}
		ttl *= 2
	}
	f.Fatalf("a lock that is renewed, in each of %d attempts: %v", attempts, err)
}

func renewalOfALostLockFails(f *fixture) {
	lease := f.renewable(f.acquire(f.brief()))
	next := f.takeAway(f.worker())
	f.checkRefused(lease.Renew(f.Ctx), "renewing a lock that someone else has")
	f.release(next)
}

// renewalOfAnEndedLeaseFails renews a lease that has ended, when another worker has
// had the lock, and released it.
func renewalOfAnEndedLeaseFails(f *fixture) {
	lease := f.renewable(f.acquire(f.brief()))
	f.release(f.takeAway(f.worker()))
	f.checkRefused(lease.Renew(f.Ctx),
		"renewing a lease that has ended, when someone else has had the lock")
}

// checkRefused checks that a renewal says no. A Lock may return anything then.
func (f *fixture) checkRefused(err error, what string) {
	f.Helper()
	if err == nil || !errors.Is(err, lock.ErrLost) && !f.factory.adapted {
		f.Errorf("%s: %v, want ErrLost", what, err)
	}
}

// releaseEndsRenewal checks that a client whose release has said yes renews nothing a lease
// later: one that was not disturbed, and one that was given up, and repeated if that failed.
func releaseEndsRenewal(f *fixture) {
	if !f.factory.Renewing || !f.factory.adapted {
		f.NotApplicable("its leases do not renew themselves, or renew the session of a client")
	}

	// What a holder sends within a lease though nobody calls it: these are its renewals.
	f.proxied = true
	f.name = newName()
	holder := f.brief()
	lease := f.held(holder)
	renewals := f.asks(holder)
	if len(renewals) == 0 {
		f.Unchecked("its renewals do not connect by Worker.Dial")
	}
	f.release(lease)
	f.renewsNothing(holder, renewals, "a release")

	by := cancellations[0]
	f.HoldAtEach("its release", func(h *suite.HeldRequest) bool {
		f.name = newName()
		holder := f.brief()
		lease := f.held(holder)
		if !h.Arm(holder.proxies) {
			return false
		}

		g := f.giveUp(holder, h, by, 0, lease.Release)
		if g == nil {
			return false
		}
		if g.Err == nil || lease.Release(f.Ctx) == nil {
			// g is described before the call: renewsNothing records anew, and g's String would
			// look for its requests among those.
			f.renewsNothing(holder, renewals, "a release was "+g.String())
		}
		return true
	})
}

// renewsNothing checks that a client sends nothing of what renews a lock when a lease has
// passed, in which what was on its way may end.
func (f *fixture) renewsNothing(l *locker, renewals []string, why string) {
	f.Helper()
	f.asks(l)
	for _, name := range f.asks(l) {
		if slices.Contains(renewals, name) {
			f.Errorf("%s, and its client still renews a lease later: it sends %s",
				why, strings.ToUpper(name))
		}
	}
}

// asks returns the names of the commands that a client sends by itself within a lease, but for
// those that only keep its connections.
func (f *fixture) asks(l *locker) (names []string) {
	f.Helper()
	l.proxies.Each((*wire.Proxy).Record)
	time.Sleep(f.factory.TTL)
	l.proxies.Each(func(p *wire.Proxy) {
		for _, piece := range p.Commands() {
			names = append(names, strings.Fields(piece)...)
		}
	})
	keeps := []string{"ping", "hello", "auth", "select", "client"}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(keeps, name)
	})
}

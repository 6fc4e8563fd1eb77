package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func endedContextTakesNothing(f *fixture) {
	l := f.worker()
	ctx, cancel := context.WithCancel(f.Ctx)
	cancel()

	check := func(what string, take func(context.Context, string) (*lock.Lease, error)) {
		lease, err := take(ctx, f.name)
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s under a context that has ended: %v, want context.Canceled", what, err)
			if lease != nil {
				_ = lease.Release(f.Ctx)
			}
		}
		f.checkFree(f.worker(), "after an acquisition that was cancelled before it began")
	}
	check("Acquire", l.Acquire)
	check("Try", l.Try)
}

func cancellationEndsAWait(f *fixture) {
	f.givesUp(context.Canceled, func(time.Duration) *waiter {
		w := f.waiter(Worker{}, lock.Locker.Acquire)
		w.Cancel()
		return w
	})
}

// deadlineEndsAWait holds the worker, which is about to wait, until its deadline, late
// enough for a busy machine, has passed. Then no command is under way that a server could
// still execute, and that nobody would take back. The step's gate is never opened: it lets the
// worker go when the worker's context ends.
func deadlineEndsAWait(f *fixture) {
	f.givesUp(context.DeadlineExceeded, func(after time.Duration) *waiter {
		take := func(l lock.Locker, ctx context.Context, name string) (*lock.Lease, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*after)
			defer cancel()
			return l.Acquire(ctx, name)
		}
		return f.waiter(Worker{Steps: step.Hold(step.Waiting).Observe}, take)
	})
}

// givesUp checks that a waiter gives up with an error after some time, and leaves nothing
// behind. It calls wait once another worker holds the lock.
func (f *fixture) givesUp(with error, wait func(after time.Duration) *waiter) {
	f.Helper()
	const after = 100 * time.Millisecond
	lease := f.acquire(f.worker())
	w := wait(after)

	// A Lock may wait for a reply that it has asked for, however long that takes: it then gets
	// checkTTL, as long as the lease of the holder, and the patience.
	if f.factory.adapted && !w.EndsWithin(after+checkEnd) {
		f.AwaitEnd(w.Call, checkTTL+f.Patience, "a waiter whose context has ended")
		f.Unchecked(fmt.Sprintf(
			"its wait goes on for more than %s after its context has ended", checkEnd))
	}
	f.AwaitEnd(w.Call, after+f.Patience, "a waiter that gives up after "+after.String())
	if !errors.Is(w.Err, with) {
		f.Fatalf("a waiter that gives up after %s: %v, want %v", after, w.Err, with)
	}
	f.leftNothing(lease)
}

// leftNothing checks that a waiter that gave up has not freed the lock, does not take it
// later, and keeps no place in line, except for the moment that a slow server needs.
func (f *fixture) leftNothing(lease *lock.Lease) {
	f.Helper()
	l := f.worker()
	f.releaseStillHeld(lease, l, "a waiter gave up: the lock is still held")
	f.release(f.expired(l, "a waiter gave up, then the lock was released"))
	for range 3 {
		f.checkFree(l, "a waiter gave up, then the lock was released")
	}
}

// A cancellation is how the user of a call gives it up while one of its requests is held, and
// what becomes of that request.
type cancellation struct {
	name     string
	deadline bool // comes, instead of a cancellation
	then     func(*suite.HeldRequest, *suite.Proxies)
}

// The first, which breaks no connection, is also how releaseEndsRenewal gives a release up.
var cancellations = []cancellation{
	{name: "is cancelled", then: comesLate},
	{name: "is cancelled, and the request is lost", then: isLost},
	{name: "is cancelled, and the reply is lost", then: isUnanswered},
	{name: "has passed its deadline", deadline: true, then: comesLate},
}

// comesLate has a request come to the server after its client has given up.
func comesLate(h *suite.HeldRequest, _ *suite.Proxies) { h.Open() }

// isLost breaks the connections of the client before the request comes to the server.
func isLost(h *suite.HeldRequest, p *suite.Proxies) {
	p.Each((*wire.Proxy).Cut)
	h.Open()
}

// isUnanswered breaks them when the server has executed the request, which its reply shows. A
// server that parks a request, as Redis does a BLPOP, says nothing: then they break after a
// second.
func isUnanswered(h *suite.HeldRequest, p *suite.Proxies) {
	replies := func() (sum int64) {
		p.Each(func(proxy *wire.Proxy) {
			sum += proxy.Replies()
		})
		return sum
	}

	p.Each((*wire.Proxy).HoldReplies)
	before := replies()
	h.Deliver()
	suite.Repeat(time.Second, func() bool {
		return replies() > before
	})

	// Open would deliver the reply that is held back, if it came before the cut.
	p.Each((*wire.Proxy).Cut)
	h.Open()
}

// A givenUp is a call that was held before a request, and given up there.
type givenUp struct {
	*suite.Call
	held *suite.HeldRequest
	by   cancellation
}

func (g *givenUp) String() string {
	return fmt.Sprintf("held %s, which then %s", g.held, g.by.name)
}

// giveUp starts a call of a worker, whose next request it has armed, gives the call up when
// it is held, and returns it when it has ended. It returns nil if the call does not come to
// that request within a limit; zero: however long it takes.
func (f *fixture) giveUp(
	l *locker, h *suite.HeldRequest, by cancellation, limit time.Duration,
	do func(context.Context) error,
) *givenUp {
	f.Helper()
	if by.deadline {
		limit = f.factory.TTL / 2 // too soon for a busy machine: HoldAtEach tries once more
	}
	ctx, cancel := context.WithTimeout(f.Ctx, cmp.Or(limit, longTimeout))
	g := &givenUp{held: h, by: by, Call: f.Start(func(context.Context) error {
		return do(ctx)
	})}
	// Registered after Start's cleanup, and so run before it: that waits for the call, which runs
	// under this ctx.
	f.Cleanup(cancel)
	if !f.AwaitHold(g.Call, h) {
		return nil
	}

	if !by.deadline {
		cancel()
	}
	<-ctx.Done()

	// The client is given time to give up before anything becomes of its request. Whether it has
	// is not asked: a Lock may wait for a reply that it has asked for, however long that takes.
	g.EndsWithin(f.factory.TTL / 4)
	by.then(h, l.proxies)
	f.AwaitEnd(g.Call, checkTTL+f.Patience, "a call that was "+g.String())
	return g
}

// eachCancellation has an operation held before each of its requests, and given up there in
// each way. A try returns false if the operation does not come to the request.
func (f *fixture) eachCancellation(
	operation string, try func(*suite.HeldRequest, cancellation) bool) {

	f.Helper()
	f.proxied = true
	for _, by := range cancellations {
		f.HoldAtEach(operation, func(h *suite.HeldRequest) bool {
			// Of the six patiences that suite.New gives a check.
			if ends, _ := f.Ctx.Deadline(); time.Until(ends) < 3*f.Patience {
				f.Unchecked(operation + " takes so long that it was not given up at each of its requests")
			}
			f.name = newName() // what the last try has left may still hold the other lock
			return try(h, by)
		})
	}
}

// connected makes a Locker whose TTL the check waits for, and which has connected, by taking the
// lock: nobody may hold that yet. One that only waits gets that TTL, too: a lock may count the
// holder's time by the TTL of its waiter.
func (f *fixture) connected() *locker {
	f.Helper()
	l := f.brief()
	_ = f.acquire(l).Release(f.Ctx) // which a busy machine may do too late
	return l
}

// held has a worker take the lock, which is given back after the check.
func (f *fixture) held(l *locker) *lock.Lease {
	f.Helper()
	lease := f.acquire(l)
	f.Cleanup(func() { _ = lease.Release(f.Ctx) }) // the check may have done so
	return lease
}

// firstRequests are those of a wait before which it is held.
const firstRequests = 4

// givenUpAcquisitionKeepsNobodyOut gives an acquisition up at each of its requests, of a lock
// that is free. If it says no, others get in when a lease has passed.
func givenUpAcquisitionKeepsNobodyOut(f *fixture) {
	if !f.promises.SurvivesCrash {
		f.NotApplicable("it does not expire")
	}

	f.eachCancellation("its acquisition", func(h *suite.HeldRequest, by cancellation) bool {
		taker, other := f.connected(), f.connected()

		g, lease := f.giveUpTaking(taker, h, by, 0)
		if g == nil {
			return false
		}
		if lease != nil {
			_ = lease.Release(f.Ctx) // whose lease may have ended
		}
		f.freeInTime(other, "an acquisition was "+g.String())
		return true
	})
}

// givenUpWaitLeavesNothing gives a wait up at each of its first requests, while another client
// holds the lock: it stays held, and whoever comes after its release gets in.
func givenUpWaitLeavesNothing(f *fixture) {
	if !f.promises.SurvivesCrash {
		f.NotApplicable("it does not expire")
	}

	f.eachCancellation("a wait for it", func(h *suite.HeldRequest, by cancellation) bool {
		if h.Nth() > firstRequests { // a wait that polls would have requests without end
			return false
		}

		waiter, other := f.connected(), f.connected()
		held := f.held(f.worker())
		// A wait that has fewer requests ends by this limit, and the tries with it.
		g, lease := f.giveUpTaking(waiter, h, by, max(tryFor, f.factory.TTL/4))
		if g == nil {
			return false
		}
		if lease != nil {
			f.Fatalf("a wait for a lock that is held was %s: it has the lock", g)
		}

		f.releaseStillHeld(held, other, "a wait was "+g.String())
		f.freeInTime(other, "a wait was "+g.String()+", and the lock was released")
		return true
	})
}

// giveUpTaking gives an acquisition up at a request. It returns nil if that does not come, and
// a lease if the acquisition says yes all the same.
func (f *fixture) giveUpTaking(
	l *locker, h *suite.HeldRequest, by cancellation, limit time.Duration,
) (*givenUp, *lock.Lease) {
	f.Helper()
	if !h.Arm(l.proxies) {
		return nil, nil
	}

	var taken *lock.Lease
	g := f.giveUp(l, h, by, limit, func(ctx context.Context) error {
		lease, err := l.Acquire(ctx, f.name)
		if err == nil {
			f.Cleanup(func() {
				_ = lease.Release(f.Ctx) // the check may have done so
			})
			taken = lease
		}
		return err
	})

	if g == nil {
		return nil, nil // the call may still go on, and write taken
	}
	return g, taken
}

// freeInTime checks that a lock which nobody has is free when a lease has passed. That others
// are kept out until then is logged.
func (f *fixture) freeInTime(l lock.Locker, why string) {
	f.Helper()
	since := time.Now()
	_ = f.expired(l, why).Release(f.Ctx)
	if long := time.Since(since); long > f.factory.TTL/4 {
		f.Logf("note: %s: it is free after %s, which no lock that expires prevents",
			why, long.Round(time.Millisecond))
	}
}

// givenUpReleaseIsRepeated gives a release up before it begins and at each of its requests. One
// that has failed is called once more, and says that it has freed the lock, or that it is lost.
// Then others get in when a lease has passed.
func givenUpReleaseIsRepeated(f *fixture) {
	f.givesUpReleases(f.factory.TTL)
}

// givenUpReleaseSaysYes is the same of a lease that does not end during the check: a Locker
// says yes only if others get in at once.
func givenUpReleaseSaysYes(f *fixture) {
	if f.factory.adapted {
		f.NotApplicable("a Lock may say yes and leave the key to its lease")
	}
	f.givesUpReleases(longTTL)
}

// givesUpReleases gives the release of a lock with a lease up before it begins and at each of
// its requests.
func (f *fixture) givesUpReleases(ttl time.Duration) {
	f.Helper()
	f.proxied = true
	other := f.connected()
	lease := f.held(f.open(Worker{TTL: ttl}))
	ended, end := context.WithCancel(f.Ctx)
	end()
	f.releasedAfterAll(lease, ttl, lease.Release(ended), other,
		"a release under a context that has ended")

	f.eachCancellation("its release", func(h *suite.HeldRequest, by cancellation) bool {
		return f.giveUpRelease(h, by, ttl)
	})
}

// giveUpRelease gives the release of a lock with a lease up at a request. It reports false if
// that does not come.
func (f *fixture) giveUpRelease(h *suite.HeldRequest, by cancellation, ttl time.Duration) bool {
	f.Helper()
	other, holder := f.connected(), f.open(Worker{TTL: ttl})
	lease := f.held(holder)
	if !h.Arm(holder.proxies) {
		return false
	}
	g := f.giveUp(holder, h, by, 0, lease.Release)
	if g != nil {
		f.releasedAfterAll(lease, ttl, g.Err, other, "a release was "+g.String())
	}
	return g != nil
}

// releasedAfterAll repeats a release that has failed, and checks what it says; err is what it
// returned the first time. If the lease ends soon, others must get in whatever the release says,
// unless the lock never expires. Else they must only after a yes, and not after that of a Lock,
// which may leave the key to its lease.
func (f *fixture) releasedAfterAll(
	lease *lock.Lease, ttl time.Duration, err error, other lock.Locker, why string,
) {
	f.Helper()
	if err != nil && !errors.Is(err, lock.ErrLost) {
		err = lease.Release(f.Ctx)
		why += ", and called once more"
	}
	if err != nil && !errors.Is(err, lock.ErrLost) && !f.factory.adapted {
		f.Errorf("%s: %v, want nil or ErrLost", why, err)
	}

	expires := ttl == f.factory.TTL && f.promises.SurvivesCrash
	if expires || err == nil && !f.factory.adapted {
		f.freeInTime(other, fmt.Sprintf("%s; it says %v", why, cmp.Or(err, errors.New("yes"))))
	}
}

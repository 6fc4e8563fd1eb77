package locktest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

type fixture struct {
	*suite.Fixture
	factory  Factory
	promises lock.Promises
	name     string // of the lock

	ofPromise bool // the check belongs to a promise
	opened    int  // workers
	proxied   bool // workers that are opened from now on connect through proxies, if they ask
}

type locker struct {
	lock.Locker
	proxies *suite.Proxies
}

// newName is the name of a lock that no other check and no earlier run has used.
func newName() string { return "locktest-" + rand.Text() }

// longTTL and longTimeout do not pass during a check.
const longTTL, longTimeout = 10 * time.Minute, 10 * time.Minute

// open makes a Locker; a TTL or a Timeout of 0 does not pass during a check. It numbers workers
// in the order in which they are opened, whatever w.Number is.
func (f *fixture) open(w Worker) *locker {
	f.Helper()
	long := longTTL
	if f.factory.adapted {
		long = checkTTL // givesUp and others wait until it has passed, if a call does not end
	}
	w.TTL = cmp.Or(w.TTL, long)
	w.Timeout = cmp.Or(w.Timeout, longTimeout)
	if f.proxied {
		w.proxies = f.NewProxies()
	}
	w.Number = f.opened
	f.opened++

	l := f.factory.Open(f.TB, w)
	if c, ok := l.(io.Closer); ok {
		f.Cleanup(func() { _ = c.Close() }) // the check may have crashed it
	}
	return &locker{l, w.proxies}
}

// worker makes a Locker whose TTL and time-out do not pass during a check.
func (f *fixture) worker() *locker { return f.open(Worker{}) }

// brief makes a Locker whose TTL the check waits for.
func (f *fixture) brief() *locker { return f.open(Worker{TTL: f.factory.TTL}) }

// acquire takes a lock that is free, or soon will be. A Lock that nobody gets in time leaves a
// promise unchecked, instead of broken: it may be slow.
func (f *fixture) acquire(l lock.Locker) *lock.Lease {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Ctx, f.Patience)
	defer cancel()
	lease, err := l.Acquire(ctx, f.name)
	if f.factory.adapted && f.ofPromise && ctx.Err() != nil {
		f.Unchecked(fmt.Sprintf("nobody got in within %s: %v", f.Patience, err))
	}
	if err != nil {
		f.Fatalf("acquiring a free lock: %v", err)
	}
	return lease
}

func (f *fixture) try(l lock.Locker, why string) *lock.Lease {
	f.Helper()
	if f.factory.adapted { // whose Try may give up too soon
		return f.acquire(l)
	}
	lease, err := l.Try(f.Ctx, f.name)
	if err != nil {
		f.Fatalf("%s: Try: %v, want the lock", why, err)
	}
	return lease
}

func (f *fixture) release(lease *lock.Lease) {
	f.Helper()
	if err := lease.Release(f.Ctx); err != nil {
		f.Fatalf("releasing a held lock: %v", err)
	}
}

// checkLost releases a lease that is no longer held.
func (f *fixture) checkLost(lease *lock.Lease, why string) {
	f.Helper()
	if err := lease.Release(f.Ctx); !errors.Is(err, lock.ErrLost) && !f.factory.adapted {
		f.Errorf("%s: Release: %v, want ErrLost", why, err)
	}
}

var errTaken = errors.New("someone else could take the lock")

// keptOut returns nil if l cannot take the lock, because someone else holds it, and errTaken if
// it could: then it has given the lock back. Any other error is that of Try.
func (f *fixture) keptOut(l lock.Locker) error {
	lease, err := l.Try(f.Ctx, f.name)
	if err == nil {
		_ = lease.Release(f.Ctx)
		return errTaken
	}
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	return err
}

// checkHeld checks that l cannot take the lock.
func (f *fixture) checkHeld(l lock.Locker, why string) {
	f.Helper()
	if err := f.keptOut(l); err != nil {
		f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
	}
}

// releaseStillHeld checks that l cannot take the lock that lease holds, and releases it. A client
// may give its requests little time, redsync a twentieth of the lease, and a time-out leaves open
// whether l has taken the lock: it tries again only if the release would then fail.
func (f *fixture) releaseStillHeld(lease *lock.Lease, l lock.Locker, why string) {
	f.Helper()
	releaseTells := f.promises.OwnerRelease && !f.factory.adapted
	err := f.keptOut(l)
	for tries := 1; releaseTells && timedOut(err) && tries < mostTries; tries++ {
		err = f.keptOut(l)
	}

	if err != nil {
		f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
	}
	f.release(lease)
}

// mostTries is how often a lock is tried that must be held, if no answer comes in time.
const mostTries = 5

func timedOut(err error) bool {
	network, is := errors.AsType[net.Error](err)
	return is && network.Timeout()
}

// checkFree checks that l can take the lock, and releases it.
func (f *fixture) checkFree(l lock.Locker, why string) {
	f.Helper()
	f.release(f.try(l, why))
}

// expired tries until l has the lock, which is or becomes free, and returns its
// lease. Too late fails the check.
func (f *fixture) expired(l lock.Locker, why string) *lock.Lease {
	f.Helper()
	lease := f.within(f.Patience, l)
	if lease == nil {
		f.Fatalf("%s: the lock is not free after %s", why, f.Patience)
	}
	return lease
}

// within tries until l has the lock. It returns nil if it has not after limit.
func (f *fixture) within(limit time.Duration, l lock.Locker) (lease *lock.Lease) {
	f.Helper()
	suite.Repeat(limit, func() bool {
		var err error
		lease, err = l.Try(f.Ctx, f.name)
		// A lock that derives its time-outs from a short TTL may exceed one on
		// a busy machine.
		slow := f.Ctx.Err() == nil && late(err)
		if err != nil && !slow && !errors.Is(err, lock.ErrHeld) {
			f.Fatalf("Try: %v, want the lock or ErrHeld", err)
		}
		return err == nil
	})
	return lease
}

// late reports whether a request has had no answer in time.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// takeAway has l take the lock from its holder, whose TTL is short, and returns the lease
// of l.
func (f *fixture) takeAway(l lock.Locker) *lock.Lease {
	f.Helper()
	if f.factory.Lose != nil {
		f.factory.Lose(f.TB, f.name)
		return f.acquire(l)
	}
	next := f.within(10*f.factory.TTL, l)
	if next == nil {
		f.Unchecked("the lock does not expire, and there is no hook Lose")
	}
	return next
}

// crash ends a worker as kill -9 does. It ends the check if the worker cannot crash.
func (f *fixture) crash(l *locker) {
	f.Helper()
	if a, is := l.Locker.(*adapter); is {
		a.end() // its goroutines end, as those of a killed process do
	}

	if f.factory.Crash != nil {
		f.factory.Crash(f.TB, l.Locker)
	} else if !l.proxies.Each((*wire.Proxy).Disconnect) {
		f.Unchecked("there is no hook Crash, and Open does not connect by Worker.Through or Worker.Dial")
	}
}

// needsCrash ends the check if no worker can crash, before any holds the lock. It comes before
// the check's workers are opened: those opened after it connect through proxies, at which they
// can crash without a hook.
func (f *fixture) needsCrash() {
	f.Helper()
	f.proxied = true
	l := f.worker()
	f.checkFree(l, "a free lock") // it has connected then
	f.crash(l)
}

// needsAbandon is needsCrash if a worker has to crash to be abandoned.
func (f *fixture) needsAbandon() {
	f.Helper()
	if f.factory.Renewing {
		f.needsCrash()
	}
}

// abandon leaves a worker alone that holds the lock. One whose leases renew
// themselves has to crash for that.
func (f *fixture) abandon(l *locker) {
	f.Helper()
	if f.factory.Renewing {
		f.crash(l)
	}
}

func shared(l lock.Locker, ctx context.Context, name string) (*lock.Lease, error) {
	return l.(*locker).Locker.(lock.SharedLocker).AcquireShared(ctx, name)
}

// A waiter is a worker that takes the lock in a goroutine of its own.
type waiter struct {
	*suite.Call
	locker *locker
	known  bool // it certainly waits
}

// start starts a call. What it took is given back after the check.
func (f *fixture) start(do func(context.Context) (*lock.Lease, error)) *suite.Call {
	return f.Start(func(ctx context.Context) error {
		lease, err := do(ctx)
		if lease != nil && err == nil {
			f.Cleanup(func() {
				_ = lease.Release(f.Ctx) // the check may have done so
			})
		}
		return err
	})
}

// waiter starts to take a lock that is held. It returns when the worker waits, as far as that
// can be known: by its step, by the hook Queued, or of a Lock by the time that has passed. It
// also returns when the call has ended, or nothing has shown it within the patience.
func (f *fixture) waiter(
	w Worker, take func(lock.Locker, context.Context, string) (*lock.Lease, error)) *waiter {

	f.Helper()

	// The gate holds nobody, and only tells. It comes first, since observe may hold the worker.
	observe := w.Steps
	waiting := step.Hold(step.Waiting)
	waiting.Open()
	w.Steps = func(ctx context.Context, at step.Name) {
		waiting.Observe(ctx, at)
		observe.At(ctx, at)
	}

	name := f.name // the check may go on to another one while the call lasts
	before := f.queued()
	l := f.open(w)
	c := f.start(func(ctx context.Context) (*lock.Lease, error) {
		return take(l, ctx, name)
	})

	// A Lock does not say that it waits: it is given the time that it may need to begin.
	known := false
	limit := f.Patience
	if f.factory.adapted {
		known = true
		limit = tryFor
	}
	suite.Repeat(limit, func() bool {
		select {
		case <-c.Done:
			return true
		case <-waiting.Reached():
			known = true
			return true
		default:
			in := f.queued() > before
			known = known || in
			return in
		}
	})
	return &waiter{c, l, known}
}

func (f *fixture) queued() int {
	if f.factory.Queued == nil {
		return 0
	}
	return f.factory.Queued(f.TB, f.name)
}

func (f *fixture) gets(w *waiter, what string) {
	f.Helper()
	f.AwaitEnd(w.Call, f.Patience, what)
	if w.Err != nil {
		f.Fatalf("%s: %v", what, w.Err)
	}
}

package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/internal/holdpoint"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func tryTakesAFreeLock(f *fixture) {
	other := f.worker()
	lease := f.try(f.worker(), "a free lock")
	start := time.Now()
	f.held(other, "a lock that was taken by Try")
	if took := time.Since(start); took > f.Patience {
		f.Errorf("Try of a held lock took %s", took)
	}
	if err := lease.Context().Err(); err != nil {
		f.Errorf("the context of a held lease has ended: %v", err)
	}
	f.release(lease)
	f.free(other, "after its release")
}

func waiterGetsIt(f *fixture) {
	lease := f.acquire(f.worker())
	w := f.waiter(Worker{}, lock.Locker.Acquire)
	f.release(lease)
	f.gets(w, "a waiter after the release")
	f.held(f.worker(), "held by the waiter")
}

func namesDoNotExcludeEachOther(f *fixture) {
	l := f.worker()
	first := f.acquire(f.worker())
	f.name = newName()
	second := f.try(l, "while another name is held")
	f.release(first)
	f.held(f.worker(), "after the release of another name")
	f.release(second)
}

func acquisitionEndsAtItsTimeout(f *fixture) {
	f.givesUp(lock.ErrTimeout, func(after time.Duration) *waiter {
		return f.waiter(Worker{Timeout: after}, lock.Locker.Acquire)
	})
}

func endedContextTakesNothing(f *fixture) {
	l := f.worker()
	ctx, cancel := context.WithCancel(f.Ctx)
	cancel()
	takes := map[string]func(context.Context, string) (*lock.Lease, error){"Acquire": l.Acquire, "Try": l.Try}
	for what, take := range takes {
		if lease, err := take(ctx, f.name); !errors.Is(err, context.Canceled) {
			f.Errorf("%s under a context that has ended: %v, want context.Canceled", what, err)
			if lease != nil {
				_ = lease.Release(f.Ctx)
			}
		}
		f.free(f.worker(), "after an acquisition that was cancelled before it began")
	}
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
// still execute, and that nobody would take back.
func deadlineEndsAWait(f *fixture) {
	f.givesUp(context.DeadlineExceeded, func(after time.Duration) *waiter {
		take := func(l lock.Locker, ctx context.Context, name string) (*lock.Lease, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*after)
			defer cancel()
			return l.Acquire(ctx, name)
		}
		return f.waiter(Worker{Steps: holdpoint.At(step.Waiting).Observe}, take)
	})
}

func (f *fixture) givesUp(with error, wait func(after time.Duration) *waiter) {
	f.Helper()
	const after = 100 * time.Millisecond
	lease := f.acquire(f.worker())
	w := wait(after)
	if f.factory.plain {
		select {
		case <-w.Done:
		case <-time.After(after + plainEnd):
			f.Ends(w.Call, plainTTL+f.Patience, "a waiter whose context has ended")
			f.Unchecked(fmt.Sprintf("its wait goes on for more than %s after its context has ended", plainEnd))
		}
	}
	f.Ends(w.Call, after+f.Patience, "a waiter that gives up after "+after.String())
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
	f.held(l, "a waiter gave up: the lock is still held")
	f.release(lease)
	f.release(f.expired(l, "a waiter gave up, then the lock was released"))
	for range 3 {
		f.free(l, "a waiter gave up, then the lock was released")
	}
}

const (
	contenders = 8
	rounds     = 20 // of each contender
)

func workersExcludeEachOther(f *fixture) {
	var inside, overlaps, entered atomic.Int64
	var workers sync.WaitGroup
	ctx, cancel := f.Ctx, context.CancelFunc(func() {})
	if f.factory.plain { // which may look for the lock so seldom that all rounds would take minutes
		ctx, cancel = context.WithTimeout(f.Ctx, f.Patience)
	}
	defer cancel()
	// Opened first: a worker that cannot be opened ends the check.
	lockers := make([]lock.Locker, contenders)
	for i := range lockers {
		lockers[i] = f.worker()
	}
	for _, l := range lockers {
		workers.Go(func() {
			for range rounds {
				lease, err := l.Acquire(ctx, f.name)
				if f.factory.plain && ctx.Err() != nil && err != nil {
					return
				}
				if err != nil {
					f.Errorf("acquiring a contended lock: %v", err)
					return
				}
				entered.Add(1)
				if inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				runtime.Gosched()
				inside.Add(-1)
				if err := lease.Release(f.Ctx); err != nil {
					f.Errorf("releasing a contended lock: %v", err)
				}
			}
		})
	}
	workers.Wait()
	if n := overlaps.Load(); n > 0 {
		f.Errorf("a worker found another inside %d times", n)
	}
	if n := entered.Load(); n < contenders {
		f.Unchecked(fmt.Sprintf("workers got in %d times within %s", n, f.Patience))
	}
}

// lookersExcludeEachOther holds a worker that takes the lock at each point,
// while another one comes.
func lookersExcludeEachOther(f *fixture) {
	f.proxied = true
	f.AtEach("its acquisition", func(h *suite.Hold) bool {
		f.name = newName()
		first, second := f.worker(), f.worker()
		f.free(first, "a free lock") // it has connected then
		f.free(second, "a free lock")
		if !h.Arm(first.proxies) {
			return false
		}
		c := f.start(func(ctx context.Context) (*lock.Lease, error) { return first.Try(ctx, f.name) })
		if !f.Comes(c, h) {
			return false
		}
		lease, err := second.Try(f.Ctx, f.name)
		h.Open()
		f.Ends(c, f.Patience, "a worker that was held")
		if err == nil && c.Err == nil {
			f.Errorf("a worker that was held %s and one that came meanwhile both have the lock", h)
		}
		if err == nil {
			_ = lease.Release(f.Ctx)
		}
		return true
	})
}

func secondReleaseFreesNothing(f *fixture) {
	first := f.acquire(f.worker())
	f.release(first)
	next := f.acquire(f.worker())
	f.lost(first, "a second release")
	f.held(f.worker(), "after someone else's second release")
	f.release(next)
}

func lostReleaseFreesNothing(f *fixture) {
	lease := f.acquire(f.brief())
	next := f.takeAway()
	f.lost(lease, "the release of a lock that someone else has")
	f.held(f.worker(), "after the release by its earlier holder")
	f.release(next)
}

// overtakenReleaseFreesNothing holds a worker that releases the lock at each
// point, until someone else has it.
func overtakenReleaseFreesNothing(f *fixture) {
	f.proxied = true
	f.AtEach("its release", func(h *suite.Hold) bool {
		came, answer := f.overtake(h)
		passed := f.factory.Renewing && !f.factory.plain && answer == nil // perhaps: see overtake
		// a busy machine may be the cause
		if came && (passed || errors.Is(answer, errHeldTooLong)) {
			if again, then := f.overtake(h); again {
				answer = then
			}
		}
		switch {
		case came && errors.Is(answer, errHeldTooLong):
			f.Unchecked(answer.Error())
		case came && !errors.Is(answer, lock.ErrLost) && !f.factory.plain:
			f.Errorf("a release held %s until someone else had the lock: %v, want ErrLost", h, answer)
		}
		return came
	})
}

var errHeldTooLong = errors.New("a release was held for so long that a library may have sent it again")

// overtake holds a release at a point, if it comes there, until someone else has
// the lock. It returns what the release then said: ErrLost also if it had freed the
// lock before, or cannot know.
func (f *fixture) overtake(h *suite.Hold) (came bool, answer error) {
	f.name = newName()
	holder, other, last := f.brief(), f.worker(), f.worker()
	f.free(other, "a free lock") // it has connected then
	f.free(last, "a free lock")
	lease := f.acquire(holder)
	if !h.Arm(holder.proxies) {
		return false, nil
	}
	c := f.Start(lease.Release)
	if !f.Comes(c, h) {
		return false, nil
	}
	since := time.Now()
	over := false
	// what is held may be said in the background, and the release pass on
	// another connection
	if f.factory.Renewing {
		select {
		case <-c.Done:
			over = true
		case <-time.After(f.factory.TTL / 2):
		}
	}
	h.Pause()
	next, err := other.Try(f.Ctx, f.name)
	released := err == nil
	if over && !errors.Is(err, lock.ErrHeld) {
		h.Open()
		if released {
			f.release(next)
		}
		return false, nil
	}
	if !released {
		next = f.takeAway()
	}
	longest := suite.LongestHold
	if f.factory.Renewing { // what is lost is a session, whose servers notice late
		longest = max(longest, 4*f.factory.TTL)
	}
	tooLong := time.Since(since) > longest
	select {
	case <-c.Done:
		tooLong = tooLong && !errors.Is(c.Err, lock.ErrLost) // else it knows, and sends nothing again
	default:
	}
	h.Open()
	f.Ends(c, f.Patience, "a release that was overtaken")
	if tooLong {
		_ = next.Release(f.Ctx)
		return true, errHeldTooLong
	}
	if f.keptOut(last) == errTaken {
		f.Fatalf("a release was held %s until someone else had the lock; it then freed the lock of the other", h)
	}
	f.release(next)
	// If it was held for longer than it waits for an answer, it has given up,
	// and cannot know.
	if released || late(c.Err) && time.Since(since) > f.factory.TTL/4 {
		return true, lock.ErrLost
	}
	return true, c.Err
}

func readerFreesOnlyItself(f *fixture) {
	if !f.promises.Shared {
		f.Needless("it has no readers")
	}
	one, other := f.read(f.worker()), f.read(f.worker())
	f.release(one)
	f.lost(one, "a reader's second release")
	f.held(f.worker(), "while another reader holds it")
	f.release(other)
}

func renewalKeepsTheLock(f *fixture) {
	f.outlives(func(lease *lock.Lease) error { return f.renewable(lease).Renew(f.Ctx) })
}

// renewable returns a lease that can be renewed. If it cannot, the check ends.
func (f *fixture) renewable(lease *lock.Lease) *lock.Lease {
	f.Helper()
	if lease.Renew == nil {
		f.Needless("its leases cannot be renewed")
	}
	return lease
}

func leaseRenewsItself(f *fixture) {
	if !f.factory.Renewing {
		f.Needless("its leases do not renew themselves")
	}
	f.outlives(func(*lock.Lease) error { return nil })
}

// attempts is how often a check of a short TTL is made, each time with twice the TTL: the
// machine may stop for as long.
const attempts = 7

// outlives checks that a lock is still held after three times its TTL, and can
// be released then.
func (f *fixture) outlives(keep func(*lock.Lease) error) {
	f.Helper()
	ttl := f.factory.TTL
	var err error
	for range attempts {
		f.name = newName()
		other, lease := f.worker(), f.acquire(f.open(Worker{TTL: ttl}))
		err = nil
		for end := time.Now().Add(3 * ttl); err == nil && time.Now().Before(end); time.Sleep(ttl / 16) {
			err = keep(lease)
			if err == nil {
				err = f.keptOut(other)
			}
		}
		err = errors.Join(err, lease.Release(f.Ctx))
		if err == nil {
			f.free(other, "released")
			return
		}
		ttl *= 2
	}
	f.Fatalf("a lock that is renewed, in each of %d attempts: %v", attempts, err)
}

func renewalOfALostLockFails(f *fixture) {
	lease := f.renewable(f.acquire(f.brief()))
	next := f.takeAway()
	if err := lease.Renew(f.Ctx); !errors.Is(err, lock.ErrLost) {
		f.Errorf("renewing a lock that someone else has: %v, want ErrLost", err)
	}
	f.release(next)
}

// renewalOfAnEndedLeaseFails renews a lease that has ended, when another worker has
// had the lock, and released it.
func renewalOfAnEndedLeaseFails(f *fixture) {
	lease := f.renewable(f.acquire(f.brief()))
	f.release(f.takeAway())
	if err := lease.Renew(f.Ctx); !errors.Is(err, lock.ErrLost) {
		f.Errorf("renewing a lease that has ended, and nobody has the lock: %v, want ErrLost", err)
	}
}

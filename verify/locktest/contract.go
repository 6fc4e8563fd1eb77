package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/strategies/lock"
)

func tryTakesAFreeLock(f *fixture) {
	other := f.worker()
	lease := f.try(f.worker(), "a free lock")

	start := time.Now()
	f.checkHeld(other, "a lock that was taken by Try")
	if took := time.Since(start); took > f.Patience {
		f.Errorf("Try of a held lock took %s", took)
	}
	if err := lease.Context().Err(); err != nil {
		f.Errorf("the context of a held lease has ended: %v", err)
	}

	f.release(lease)
	f.checkFree(other, "after its release")
}

func waiterGetsIt(f *fixture) {
	lease := f.acquire(f.worker())
	w := f.waiter(Worker{}, lock.Locker.Acquire)
	f.release(lease)
	f.gets(w, "a waiter after the release")
	f.checkHeld(f.worker(), "held by the waiter")
}

func namesDoNotExcludeEachOther(f *fixture) {
	l := f.worker()
	first := f.acquire(f.worker())
	f.name = newName()
	second := f.try(l, "while another name is held")
	f.release(first)
	f.checkHeld(f.worker(), "after the release of another name")
	f.release(second)
}

func acquisitionEndsAtItsTimeout(f *fixture) {
	f.givesUp(lock.ErrTimeout, func(after time.Duration) *waiter {
		return f.waiter(Worker{Timeout: after}, lock.Locker.Acquire)
	})
}

const (
	contenders = 8
	rounds     = 20 // of each contender
)

func workersExcludeEachOther(f *fixture) {
	ctx := f.Ctx
	if f.factory.adapted { // which may look for the lock so seldom that all rounds would take minutes
		bounded, cancel := context.WithTimeout(f.Ctx, f.Patience)
		defer cancel()
		ctx = bounded
	}

	// Opened first: a worker that cannot be opened ends the check.
	lockers := make([]lock.Locker, contenders)
	for i := range lockers {
		lockers[i] = f.worker()
	}
	var inside crowd
	var workers sync.WaitGroup
	for _, l := range lockers {
		workers.Go(func() { f.contend(ctx, l, &inside) })
	}
	workers.Wait()

	if n := inside.overlaps.Load(); n > 0 {
		f.Errorf("a worker found another inside %d times", n)
	}
	if n := inside.entered.Load(); n < contenders {
		f.Unchecked(fmt.Sprintf("workers got in %d times within %s", n, f.Patience))
	}
}

// A crowd counts the workers that have a lock.
type crowd struct {
	now      atomic.Int64
	entered  atomic.Int64 // how often somebody came
	overlaps atomic.Int64 // how often somebody was there already
}

// contend takes and releases the lock in rounds. It runs in a goroutine of its own, so that it
// must call nothing that ends the check, such as Fatalf.
func (f *fixture) contend(ctx context.Context, l lock.Locker, inside *crowd) {
	for range rounds {
		lease, err := l.Acquire(ctx, f.name)
		if f.factory.adapted && ctx.Err() != nil && err != nil {
			return // its time is over: that too few got in is unchecked, and nobody's fault
		}
		if err != nil {
			f.Errorf("acquiring a contended lock: %v", err)
			return
		}

		inside.entered.Add(1)
		if inside.now.Add(1) > 1 {
			inside.overlaps.Add(1)
		}
		runtime.Gosched() // others run now: one of them may be inside, too
		inside.now.Add(-1)

		// Also if the time of ctx is over: others wait for it.
		if err := lease.Release(f.Ctx); err != nil {
			f.Errorf("releasing a contended lock: %v", err)
		}
	}
}

// lookersExcludeEachOther holds a worker that takes the lock at each point,
// while another one comes. It is a fault if both get it, and none if neither does.
func lookersExcludeEachOther(f *fixture) {
	f.proxied = true
	f.HoldAtEach("its acquisition", func(h *suite.HeldRequest) bool {
		f.name = newName()
		first, second := f.worker(), f.worker()
		f.checkFree(first, "a free lock") // it has connected then
		f.checkFree(second, "a free lock")

		if !h.Arm(first.proxies) {
			return false
		}
		c := f.start(func(ctx context.Context) (*lock.Lease, error) {
			return first.Try(ctx, f.name)
		})
		if !f.AwaitHold(c, h) {
			return false
		}

		lease, err := second.Try(f.Ctx, f.name)
		h.Open()
		f.AwaitEnd(c, f.Patience, "a worker that was held")

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
	f.checkLost(first, "a second release")
	f.checkHeld(f.worker(), "after someone else's second release")
	f.release(next)
}

func lostReleaseFreesNothing(f *fixture) {
	lease := f.acquire(f.brief())
	next := f.takeAway(f.worker())
	f.checkLost(lease, "the release of a lock that someone else has")
	f.checkHeld(f.worker(), "after the release by its earlier holder")
	f.release(next)
}

// overtakenReleaseFreesNothing holds a worker that releases the lock at each
// point, until someone else has it.
func overtakenReleaseFreesNothing(f *fixture) {
	f.proxied = true
	f.HoldAtEach("its release", func(h *suite.HeldRequest) bool {
		what, answer := f.overtake(h)

		// A yes may be true if leases renew themselves: what was held may have been a renewal,
		// while the release passed on another connection. A second attempt decides, if it is held.
		if what == answered && answer == nil && f.factory.Renewing && !f.factory.adapted {
			if again, then := f.overtake(h); again != notHeld {
				what, answer = again, then
			}
		}

		// A release that was held for too long, as on a busy machine, was not judged: it is tried
		// again.
		for range 4 {
			if what != heldTooLong {
				break
			}
			if again, then := f.overtake(h); again != notHeld {
				what, answer = again, then
			}
		}

		switch {
		case what == heldTooLong:
			f.Unchecked("a release was held for so long that a library may have sent it again")
		case what == answered && !errors.Is(answer, lock.ErrLost) && !f.factory.adapted:
			f.Errorf("a release held %s until someone else had the lock: %v, want ErrLost", h, answer)
		}
		return what != notHeld
	})
}

// An outcome is what became of a release that is held until someone else has the lock.
type outcome int

const (
	notHeld     outcome = iota // it did not come to the point
	heldTooLong                // a client library may have given it up, and sent it again
	freedBefore                // it had freed the lock when it was held: what it returns says nothing
	gaveUp                     // it has waited too long for a reply, and cannot know
	answered                   // what it returned says whether the lock was lost
)

// overtake holds a release at a point, if it comes there, until someone else has
// the lock. With the outcome answered it returns what the release then returned.
func (f *fixture) overtake(h *suite.HeldRequest) (outcome, error) {
	f.name = newName()
	holder, other, last := f.brief(), f.worker(), f.worker()
	f.checkFree(other, "a free lock") // it has connected then
	f.checkFree(last, "a free lock")
	lease := f.acquire(holder)
	if !h.Arm(holder.proxies) {
		return notHeld, nil
	}
	release := f.Start(lease.Release)
	if !f.AwaitHold(release, h) {
		return notHeld, nil
	}
	since := time.Now()

	// If the release ends though a request is held, that is a renewal, and the release has
	// passed on another connection. Nothing was overtaken then, unless the lock is still held.
	passed := f.factory.Renewing && release.EndsWithin(f.factory.TTL/2)
	h.Pause() // its renewals, too, or they would keep the lock
	next, err := other.Try(f.Ctx, f.name)
	freed := err == nil
	if passed && !errors.Is(err, lock.ErrHeld) {
		h.Open()
		if freed {
			f.release(next)
		}
		return notHeld, nil
	}
	if !freed {
		next = f.takeAway(other) // which has connected, so that the release is not held for long
	}

	// One that knows that the lock is lost sends nothing again.
	knows := release.EndsWithin(0) && errors.Is(release.Err, lock.ErrLost)
	tooLong := time.Since(since) > f.longestHold() && !knows
	h.Open()
	f.AwaitEnd(release, f.Patience, "a release that was overtaken")

	if tooLong { // what a library has sent again may have freed the lock of the other
		_ = next.Release(f.Ctx)
		return heldTooLong, nil
	}

	if f.keptOut(last) == errTaken {
		f.Fatalf("a release was held %s until someone else had the lock; "+
			"it then freed the lock of the other", h)
	}
	f.release(next)
	switch {
	case freed:
		return freedBefore, nil
	case late(release.Err) && time.Since(since) > f.factory.TTL/4:
		return gaveUp, nil
	}
	return answered, release.Err
}

// longestHold is how long a release may be held. What a renewed lease loses is a session,
// whose servers notice late.
func (f *fixture) longestHold() time.Duration {
	if f.factory.Renewing {
		return max(suite.LongestHold, 4*f.factory.TTL)
	}
	return suite.LongestHold
}

func readerFreesOnlyItself(f *fixture) {
	if !f.promises.Shared {
		f.NotApplicable("it has no readers")
	}
	one, other := f.read(f.worker()), f.read(f.worker())
	f.release(one)
	f.checkLost(one, "a reader's second release")
	f.checkHeld(f.worker(), "while another reader holds it")
	f.release(other)
}

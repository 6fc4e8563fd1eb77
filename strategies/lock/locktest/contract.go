package locktest

import (
	"context"
	"errors"
	"time"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/strategies/lock"
)

func tryTakesAFreeLock(f *floor) {
	name, l, other := f.name(), f.worker(), f.worker()
	lease := f.try(l, name, "a free lock")
	f.held(other, name, "a lock that was taken by Try")
	if err := lease.Context().Err(); err != nil {
		f.Errorf("the context of a held lease has ended: %v", err)
	}
	f.release(lease)
	f.free(other, name, "after its release")
}

func tryOfAHeldLockAnswersAtOnce(f *floor) {
	name, other := f.name(), f.worker()
	lease := f.acquire(f.worker(), name)
	start := time.Now()
	f.held(other, name, "a held lock")
	if took := time.Since(start); took > f.prompt() {
		f.Errorf("Try of a held lock took %s", took)
	}
	f.release(lease)
}

func waiterGetsIt(f *floor) {
	name := f.name()
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{}, exclusively)
	f.release(lease)
	f.ends(c, f.patience(), "a waiter after the release")
	if c.err != nil {
		f.Fatalf("a waiter after the release: %v", c.err)
	}
	f.held(f.worker(), name, "held by the waiter")
}

func namesDoNotExcludeEachOther(f *floor) {
	one, other, l := f.name(), f.name(), f.worker()
	first := f.acquire(f.worker(), one)
	second := f.try(l, other, "while another name is held")
	f.release(first)
	f.held(f.worker(), other, "after the release of another name")
	f.release(second)
}

func acquisitionEndsAtItsTimeout(f *floor) {
	if f.subject.Untimed {
		f.skip("its acquisitions have no time-out of their own")
	}
	name := f.name()
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{Timeout: 30 * time.Millisecond}, exclusively)
	f.ends(c, f.patience(), "an acquisition with a time-out of 30ms")
	if !errors.Is(c.err, lock.ErrTimeout) {
		f.Errorf("an acquisition that took too long: %v, want ErrTimeout", c.err)
	}
	f.leftNothing(lease, name)
}

func endedContextTakesNothing(f *floor) {
	name, l := f.name(), f.worker()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for what, take := range map[string]func(context.Context, string) (lock.Lease, error){"Acquire": l.Acquire, "Try": l.Try} {
		if lease, err := take(ctx, name); !errors.Is(err, context.Canceled) {
			f.Errorf("%s under a context that has ended: %v, want context.Canceled", what, err)
			if lease != nil {
				_ = lease.Release(f.ctx)
			}
		}
		f.free(f.worker(), name, "after an acquisition that was cancelled before it began")
	}
}

func cancellationEndsAWait(f *floor) {
	name := f.name()
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{}, exclusively)
	c.cancel()
	f.ends(c, f.prompt(), "a waiter that was cancelled")
	if !errors.Is(c.err, context.Canceled) {
		f.Errorf("a waiter that was cancelled: %v, want context.Canceled", c.err)
	}
	f.leftNothing(lease, name)
}

func deadlineEndsAWait(f *floor) {
	name := f.name()
	lease := f.acquire(f.worker(), name)
	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Millisecond)
	defer cancel()
	c := f.waiter(ctx, name, Worker{}, exclusively)
	f.ends(c, f.prompt(), "a waiter whose deadline passed")
	if !errors.Is(c.err, context.DeadlineExceeded) {
		f.Errorf("a waiter whose deadline passed: %v, want context.DeadlineExceeded", c.err)
	}
	f.leftNothing(lease, name)
}

// leftNothing checks that a waiter who gave up neither freed the lock nor keeps a place in line for it, nor takes it
// later.
func (f *floor) leftNothing(lease lock.Lease, name string) {
	f.Helper()
	l := f.worker()
	f.held(l, name, "a waiter gave up: the lock is still held")
	f.release(lease)
	for range 3 {
		f.free(l, name, "a waiter gave up, then the lock was released")
	}
}

// noGoroutineIsLeftBehind does a little of everything. The suite's own cleanups run before it looks.
func noGoroutineIsLeftBehind(f *floor) {
	ignored := append([]goleak.Option{goleak.IgnoreCurrent()}, f.subject.Others...)
	f.Cleanup(func() {
		if err := goleak.Find(ignored...); err != nil {
			f.Errorf("after all Lockers were closed: %v", err)
		}
	})
	name, l := f.name(), f.worker()
	for range 3 {
		f.free(l, name, "a free lock")
	}
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{}, exclusively)
	c.cancel()
	f.ends(c, f.prompt(), "a waiter that was cancelled")
	f.held(l, name, "a held lock")
	f.release(lease)
	lease = f.acquire(l, name)
	if f.subject.Lose != nil {
		f.subject.Lose(f.TB, name)
	}
	_ = lease.Release(f.ctx) // lost or not
}

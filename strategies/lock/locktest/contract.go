package locktest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

func tryTakesAFreeLock(f *fixture) {
	name, l, other := f.name(), f.worker(), f.worker()
	lease := f.try(l, name, "a free lock")
	f.held(other, name, "a lock that was taken by Try")
	if err := lease.Context().Err(); err != nil {
		f.Errorf("the context of a held lease has ended: %v", err)
	}
	f.release(lease)
	f.free(other, name, "after its release")
}

func tryOfAHeldLockAnswersAtOnce(f *fixture) {
	name, other := f.name(), f.worker()
	lease := f.acquire(f.worker(), name)
	start := time.Now()
	f.held(other, name, "a held lock")
	if took := time.Since(start); took > f.patience() {
		f.Errorf("Try of a held lock took %s", took)
	}
	f.release(lease)
}

func waiterGetsIt(f *fixture) {
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

func namesDoNotExcludeEachOther(f *fixture) {
	one, other, l := f.name(), f.name(), f.worker()
	first := f.acquire(f.worker(), one)
	second := f.try(l, other, "while another name is held")
	f.release(first)
	f.held(f.worker(), other, "after the release of another name")
	f.release(second)
}

func acquisitionEndsAtItsTimeout(f *fixture) {
	if f.factory.Untimed {
		f.skip("its acquisitions have no time-out of their own")
	}
	f.givesUp(lock.ErrTimeout, func(name string, after time.Duration) *call {
		return f.waiter(f.ctx, name, Worker{Timeout: after}, exclusively)
	})
}

func endedContextTakesNothing(f *fixture) {
	name, l := f.name(), f.worker()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	takes := map[string]func(context.Context, string) (lock.Lease, error){"Acquire": l.Acquire, "Try": l.Try}
	for what, take := range takes {
		if lease, err := take(ctx, name); !errors.Is(err, context.Canceled) {
			f.Errorf("%s under a context that has ended: %v, want context.Canceled", what, err)
			if lease != nil {
				_ = lease.Release(f.ctx)
			}
		}
		f.free(f.worker(), name, "after an acquisition that was cancelled before it began")
	}
}

func cancellationEndsAWait(f *fixture) {
	name := f.name()
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{}, exclusively)
	c.cancel()
	f.ends(c, f.patience(), "a waiter that was cancelled")
	if !errors.Is(c.err, context.Canceled) {
		f.Errorf("a waiter that was cancelled: %v, want context.Canceled", c.err)
	}
	f.leftNothing(lease, name)
}

// deadlineEndsAWait holds the worker where it is about to wait until its deadline has passed, so that no command of it is
// under way then: a server may execute such a command later, when nobody can take it back.
func deadlineEndsAWait(f *fixture) {
	f.givesUp(context.DeadlineExceeded, func(name string, after time.Duration) *call {
		ctx, cancel := context.WithTimeout(f.ctx, after)
		f.Cleanup(cancel)
		return f.waiter(ctx, name, Worker{Steps: step.Hold(step.Waiting).Observe}, exclusively)
	})
}

// givesUp has a worker wait for a while, and give up with an error. Where the time has passed before the worker waited,
// because the machine is busy, it tries again with a longer one.
func (f *fixture) givesUp(with error, waiter func(name string, after time.Duration) *call) {
	f.Helper()
	for after := 30 * time.Millisecond; ; after *= 10 {
		name := f.name()
		lease := f.acquire(f.worker(), name)
		c := waiter(name, after)
		f.ends(c, after+f.patience(), "a waiter that gives up after "+after.String())
		if !errors.Is(c.err, with) {
			f.Fatalf("a waiter that gives up after %s: %v, want %v", after, c.err, with)
		}
		if c.known || after >= f.patience() {
			f.leftNothing(lease, name)
			return
		}
		f.release(lease)
	}
}

// leftNothing checks that a waiter who gave up has not freed the lock, keeps no place in line, and does not take the
// lock later. The place may still be there for a moment, where the server is slow to answer.
func (f *fixture) leftNothing(lease lock.Lease, name string) {
	f.Helper()
	l := f.worker()
	f.held(l, name, "a waiter gave up: the lock is still held")
	f.release(lease)
	next := f.within(f.patience(), l, name)
	if next == nil {
		f.Fatalf("a waiter gave up, then the lock was released: it is not free after %s", f.patience())
	}
	f.release(next)
	for range 3 {
		f.free(l, name, "a waiter gave up, then the lock was released")
	}
}

// noGoroutineIsLeftBehind does a little of everything, and then looks for goroutines that it started. They inherit a
// label from it, so the check ignores those of other tests. Its cleanup runs after the fixture's.
func noGoroutineIsLeftBehind(f *fixture) {
	name := f.name()
	pprof.SetGoroutineLabels(pprof.WithLabels(f.ctx, pprof.Labels("locktest", name)))
	f.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		var left string
		for deadline := time.Now().Add(f.patience()); ; time.Sleep(time.Millisecond) {
			if left = goroutines(name); left == "" {
				return
			}
			if time.Now().After(deadline) {
				break
			}
		}
		f.Errorf("after all Lockers were closed:\n%s", left)
	})
	l := f.worker()
	for range 3 {
		f.free(l, name, "a free lock")
	}
	lease := f.acquire(f.worker(), name)
	c := f.waiter(f.ctx, name, Worker{}, exclusively)
	c.cancel()
	f.ends(c, f.patience(), "a waiter that was cancelled")
	f.held(l, name, "a held lock")
	f.release(lease)
	lease = f.acquire(l, name)
	if f.factory.Lose != nil {
		f.factory.Lose(f.TB, name)
	}
	_ = lease.Release(f.ctx) // it may be lost
}

// goroutines returns the stacks of the goroutines that have a label.
func goroutines(label string) string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a Buffer does not fail
	var left []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, `"`+label+`"`) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

const (
	contenders = 8
	rounds     = 20 // of each contender
)

// workersExcludeEachOther has workers add to a counter by reading and writing it. The counter is atomic only because
// the race detector does not see the lock.
func workersExcludeEachOther(f *fixture) {
	name := f.name()
	var inside, overlaps, counter atomic.Int64
	lockers := make([]lock.Locker, contenders) // opened first: a worker that cannot be opened ends the check
	for i := range lockers {
		lockers[i] = f.worker()
	}
	var workers sync.WaitGroup
	for _, l := range lockers {
		workers.Go(func() {
			for range rounds {
				lease, err := l.Acquire(f.ctx, name)
				if err != nil {
					f.Errorf("acquiring a contended lock: %v", err)
					return
				}
				if inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				n := counter.Load()
				runtime.Gosched()
				counter.Store(n + 1)
				inside.Add(-1)
				if err := lease.Release(f.ctx); err != nil {
					f.Errorf("releasing a contended lock: %v", err)
				}
			}
		})
	}
	workers.Wait()
	if n := overlaps.Load(); n > 0 {
		f.Errorf("a worker found another inside %d times", n)
	}
	if n := counter.Load(); n != contenders*rounds {
		f.Errorf("%d workers added 1 %d times each, and the sum is %d", contenders, rounds, n)
	}
}

// lookersExcludeEachOther holds a worker that has found the lock free, or has half taken it, while another one comes.
func lookersExcludeEachOther(f *fixture) {
	for _, at := range []step.Name{step.Looked, step.Half} {
		name, gate, second := f.name(), step.Hold(at), f.worker()
		first := f.open(Worker{Steps: gate.Observe})
		c, held := f.untilHeldAt(gate, func(ctx context.Context) (lock.Lease, error) { return first.Try(ctx, name) })
		if !held {
			continue
		}
		lease, err := second.Try(f.ctx, name)
		gate.Open()
		f.ends(c, f.patience(), "a worker that was held at "+string(at))
		if err == nil && c.err == nil {
			f.Errorf("a worker held at %s and one who came meanwhile both have the lock", at)
		}
		if err == nil {
			_ = lease.Release(f.ctx)
		}
	}
}

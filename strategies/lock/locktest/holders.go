package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// entering is a way for a holder to take its lock again.
type entering struct {
	by   string
	take func(f *fixture, holder lock.Locker, name string, last lock.Lease) (lock.Lease, error)
}

// entries are the ways to take a lock again. The holder is the Locker, not one of its leases.
var entries = []entering{
	{"Acquire", func(f *fixture, holder lock.Locker, name string, _ lock.Lease) (lock.Lease, error) {
		ctx, cancel := context.WithTimeout(f.ctx, f.patience())
		defer cancel()
		return holder.Acquire(ctx, name)
	}},
	{"Try", func(f *fixture, holder lock.Locker, name string, _ lock.Lease) (lock.Lease, error) {
		return holder.Try(f.ctx, name)
	}},
	{"Reenter", func(f *fixture, holder lock.Locker, name string, last lock.Lease) (lock.Lease, error) {
		if r, ok := last.(lock.Reentrant); ok {
			return r.Reenter(f.ctx)
		}
		return holder.Try(f.ctx, name) // leases need not be Reentrant
	}},
}

// holderEntersAgain enters twice more, in each way, and releases the last entry first or the first entry first.
func holderEntersAgain(f *fixture) {
	for _, enter := range entries {
		for _, lastFirst := range []bool{true, false} {
			f.entersAgain(enter, lastFirst)
		}
	}
}

func (f *fixture) entersAgain(enter entering, lastFirst bool) {
	f.Helper()
	name, holder, other := f.name(), f.worker(), f.worker()
	held := []lock.Lease{f.acquire(holder, name)}
	for range 2 {
		lease, err := enter.take(f, holder, name, held[len(held)-1])
		if err != nil {
			f.Fatalf("a holder enters again by %s: %v", enter.by, err)
		}
		held = append(held, lease)
	}
	for len(held) > 0 {
		f.held(other, name, "entered several times by "+enter.by+" and not released as often")
		i := 0
		if lastFirst {
			i = len(held) - 1
		}
		f.release(held[i])
		held = slices.Delete(held, i, i+1)
	}
	f.free(other, name, "released as often as entered by "+enter.by)
}

const line = 4 // waiters

func waitersGetItInOrder(f *fixture) {
	name := f.name()
	lease := f.acquire(f.worker(), name)
	var mu sync.Mutex
	var order []int
	var calls []*call
	for i := range line {
		c := f.waiter(f.ctx, name, Worker{}, func(l lock.Locker, ctx context.Context, name string) (lock.Lease, error) {
			lease, err := l.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			return nil, lease.Release(ctx)
		})
		if !c.known {
			f.unchecked("it does not report step.Waiting, and there is no hook Queued")
		}
		calls = append(calls, c)
	}
	f.release(lease)
	for _, c := range calls {
		f.ends(c, f.patience(), "a waiter in line")
		if c.err != nil {
			f.Fatalf("a waiter in line: %v", c.err)
		}
	}
	if !slices.IsSorted(order) {
		f.Errorf("waiters 0 to %d came in this order and got the lock in the order %v", line-1, order)
	}
}

// fencesGrow has workers take the lock in turn, and once after the crash of a holder.
func fencesGrow(f *fixture) {
	name := f.name()
	workers := []lock.Locker{f.worker(), f.worker(), f.worker()}
	var last int64
	for i := range 3 * len(workers) {
		lease := f.acquire(workers[i%len(workers)], name)
		last = f.fence(lease, last, i > 0)
		f.release(lease)
	}
	if f.factory.Crash == nil || !f.promises.SurvivesCrash {
		return
	}
	dead := f.open(Worker{TTL: f.ttl()})
	last = f.fence(f.acquire(dead, name), last, true)
	f.factory.Crash(f.TB, dead)
	next := f.expired(workers[0], name, "its holder has crashed")
	f.fence(next, last, true)
	f.release(next)
}

// fence returns the fence of a lease, which has to be larger than the last one if there was one.
func (f *fixture) fence(lease lock.Lease, last int64, bound bool) int64 {
	f.Helper()
	fencer, ok := lease.(lock.Fencer)
	if !ok {
		f.Fatalf("it promises fences, and its lease (%T) is not a Fencer", lease)
	}
	n := fencer.Fence()
	if bound && n <= last {
		f.Errorf("a holder got fence %d after one that got %d", n, last)
	}
	return n
}

// read takes the lock as a reader.
func (f *fixture) read(l lock.Locker, name string) lock.Lease {
	f.Helper()
	s, ok := l.(lock.SharedLocker)
	if !ok {
		f.Fatalf("it promises to be shared, and it (%T) is not a SharedLocker", l)
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.patience())
	defer cancel()
	lease, err := s.AcquireShared(ctx, name)
	if err != nil {
		f.Fatalf("a reader acquiring a lock that no writer has: %v", err)
	}
	return lease
}

func readersShareWritersDoNot(f *fixture) {
	name, writer := f.name(), f.worker()
	one, other := f.read(f.worker(), name), f.read(f.worker(), name)
	f.held(writer, name, "while two readers hold it")
	f.release(one)
	f.held(writer, name, "while a reader holds it")
	f.release(other)
	lease := f.try(writer, name, "when the readers have gone")
	f.held(f.worker(), name, "while a writer holds it")
	f.keptOut(name)
	reader := f.waiter(f.ctx, name, Worker{}, shared)
	f.release(lease)
	f.ends(reader, f.patience(), "a reader after the writer's release")
	if reader.err != nil {
		f.Errorf("a reader after the writer's release: %v", reader.err)
	}
}

// keptOut checks that a reader does not get in while a writer holds the lock.
func (f *fixture) keptOut(name string) {
	f.Helper()
	want, w, ctx := lock.ErrTimeout, Worker{Timeout: 30 * time.Millisecond}, f.ctx
	if f.factory.Untimed {
		bounded, cancel := context.WithTimeout(f.ctx, w.Timeout)
		defer cancel()
		want, ctx = context.DeadlineExceeded, bounded
	}
	c := f.waiter(ctx, name, w, shared)
	f.ends(c, f.patience(), "a reader with a time-out of 30ms")
	if !errors.Is(c.err, want) {
		f.Errorf("a reader while a writer holds the lock: %v, want %v", c.err, want)
	}
}

// handovers is how often readers hand the lock to each other, within a second, before the writer counts as starved.
const handovers = 100

// waitingWriterIsServed has readers keep the lock: each takes it before the last one has left. A lock that serves
// writers keeps one of them out.
func waitingWriterIsServed(f *fixture) {
	brief := Worker{Timeout: 500 * time.Millisecond} // a busy machine keeps a reader out for 100 ms
	name, workers := f.name(), [2]lock.Locker{f.open(brief), f.open(brief)}
	held := f.read(f.worker(), name)
	writer := f.waiter(f.ctx, name, Worker{}, exclusively)
	tick := time.NewTicker(time.Second / handovers)
	defer tick.Stop()
	limit := f.patience() // the worker gives up before: a deadline may leave a command under way that takes the lock later
	if f.factory.Untimed {
		limit = brief.Timeout
	}
	for i := range handovers {
		ctx, cancel := context.WithTimeout(f.ctx, limit)
		next, err := shared(workers[i%len(workers)], ctx, name)
		cancel()
		f.release(held)
		if err != nil { // kept out
			f.ends(writer, f.patience(), "a writer when the readers have gone")
			if writer.err != nil {
				f.Errorf("a writer when the readers have gone: %v", writer.err)
			}
			return
		}
		held = next
		<-tick.C
	}
	f.release(held)
	f.Errorf("a writer waited while readers handed the lock to each other %d times", handovers)
}

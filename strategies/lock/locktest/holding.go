package locktest

import (
	"context"
	"slices"
	"sync"

	"github.com/marketsim/marketsim/strategies/lock"
)

// entering is a way for a holder to take its lock again.
type entering struct {
	by   string
	take func(f *floor, holder lock.Locker, name string, last lock.Lease) (lock.Lease, error)
}

// entries are the ways to take a lock again. The lock of a Locker is the worker's, whichever lease it has at hand.
var entries = []entering{
	{"Acquire", func(f *floor, holder lock.Locker, name string, _ lock.Lease) (lock.Lease, error) {
		ctx, cancel := context.WithTimeout(f.ctx, f.prompt())
		defer cancel()
		return holder.Acquire(ctx, name)
	}},
	{"Try", func(f *floor, holder lock.Locker, name string, _ lock.Lease) (lock.Lease, error) {
		return holder.Try(f.ctx, name)
	}},
	{"Reenter", func(f *floor, holder lock.Locker, name string, last lock.Lease) (lock.Lease, error) {
		if r, ok := last.(lock.Reentrant); ok {
			return r.Reenter(f.ctx)
		}
		return holder.Try(f.ctx, name) // leases need not be Reentrant
	}},
}

// holderEntersAgain enters twice more, in each way, and releases what was entered last first, and then first first.
func holderEntersAgain(f *floor) {
	for _, enter := range entries {
		for _, lastFirst := range []bool{true, false} {
			f.entersAgain(enter, lastFirst)
		}
	}
}

func (f *floor) entersAgain(enter entering, lastFirst bool) {
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

func waitersGetItInOrder(f *floor) {
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
			f.unchecked("it tells no steps, and there is no hook Queued")
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

// fencesGrow takes the lock by turns, and after the crash of a holder.
func fencesGrow(f *floor) {
	name := f.name()
	crew := []lock.Locker{f.worker(), f.worker(), f.worker()}
	var last int64
	for i := range 3 * len(crew) {
		lease := f.acquire(crew[i%len(crew)], name)
		last = f.fence(lease, last, i > 0)
		f.release(lease)
	}
	if f.subject.Crash == nil || !f.promises.SurvivesCrash {
		return
	}
	dead := f.open(Worker{TTL: f.ttl()})
	last = f.fence(f.acquire(dead, name), last, true)
	f.subject.Crash(f.TB, dead)
	next := f.expired(crew[0], name, "its holder has crashed")
	f.fence(next, last, true)
	f.release(next)
}

// fence returns the fence of a lease, which has to be larger than the last one if there was one.
func (f *floor) fence(lease lock.Lease, last int64, bound bool) int64 {
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

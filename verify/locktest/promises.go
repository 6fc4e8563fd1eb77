package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/strategies/lock"
)

// holderEntersAgain enters twice more, and releases the last entry first or the
// first entry first.
func holderEntersAgain(f *fixture) {
	for _, lastFirst := range []bool{true, false} {
		f.name = newName()
		holder, other := f.worker(), f.worker()
		held := []*lock.Lease{
			f.acquire(holder),
			f.acquire(holder),
			f.try(holder, "a holder enters again"),
		}
		if lastFirst {
			slices.Reverse(held)
		}
		for _, lease := range held {
			f.checkHeld(other, "entered several times and not released as often")
			f.release(lease)
		}
		f.checkFree(other, "released as often as entered")
	}
}

const waitersInLine = 4

func waitersGetItInOrder(f *fixture) {
	lease := f.acquire(f.worker())
	order := make(chan int, waitersInLine)

	// Each comes when the one before it is known to wait: only then is there an order.
	var line []*waiter
	for i := range waitersInLine {
		take := func(l lock.Locker, ctx context.Context, name string) (*lock.Lease, error) {
			lease, err := l.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			order <- i // before the release, after which the next one may be faster
			return nil, lease.Release(ctx)
		}
		w := f.waiter(Worker{}, take)
		if !w.known {
			f.Unchecked("it does not report step.Waiting, and there is no hook Queued")
		}
		line = append(line, w)
	}

	f.release(lease)
	for i, w := range line {
		f.gets(w, "a waiter in line")
		if got := <-order; got != i {
			f.Errorf("of waiters 0 to %d, which came in this order, the next to get the lock "+
				"was %d, want %d", waitersInLine-1, got, i)
		}
	}
}

// fencesGrow has workers take the lock in turn, and once after the crash of a holder.
func fencesGrow(f *fixture) {
	// Before dead is opened: a worker whose leases renew themselves may have to crash at its
	// proxies, which only workers that are opened after this call have.
	f.needsAbandon()
	workers := []lock.Locker{f.worker(), f.worker(), f.worker()}
	var last int64
	for i := range 3 * len(workers) {
		lease := f.acquire(workers[i%len(workers)])
		last = f.fence(lease, last)
		f.release(lease)
	}
	if !f.promises.SurvivesCrash {
		return
	}

	dead := f.brief()
	last = f.fence(f.acquire(dead), last)
	f.abandon(dead)
	next := f.expired(workers[0], "its holder has crashed")
	f.fence(next, last)
	f.release(next)
}

// fence returns the fence of a lease, which has to be larger than the last one.
func (f *fixture) fence(lease *lock.Lease, last int64) int64 {
	f.Helper()
	if lease.Fence == 0 {
		f.Fatalf("it promises fences, and its lease has none")
	}
	if lease.Fence <= last {
		f.Errorf("a holder got fence %d after one that got %d", lease.Fence, last)
	}
	return lease.Fence
}

func (f *fixture) read(l *locker) *lock.Lease {
	f.Helper()
	if _, ok := l.Locker.(lock.SharedLocker); !ok {
		f.Fatalf("it promises to be shared, and it (%T) is not a SharedLocker", l.Locker)
	}
	ctx, cancel := context.WithTimeout(f.Ctx, f.Patience)
	defer cancel()
	lease, err := shared(l, ctx, f.name)
	if err != nil {
		f.Fatalf("a reader acquiring a lock that no writer has: %v", err)
	}
	return lease
}

func readersShareWritersDoNot(f *fixture) {
	writer := f.worker()
	one, other := f.read(f.worker()), f.read(f.worker())
	f.checkHeld(writer, "while two readers hold it")
	f.release(one)
	f.checkHeld(writer, "while a reader holds it")
	f.release(other)

	lease := f.try(writer, "when the readers have gone")
	f.checkHeld(f.worker(), "while a writer holds it")
	late := f.waiter(Worker{Timeout: 30 * time.Millisecond}, shared)
	f.AwaitEnd(late.Call, f.Patience, "a reader with a time-out of 30ms")
	if !errors.Is(late.Err, lock.ErrTimeout) {
		f.Errorf("a reader while a writer holds the lock: %v, want %v", late.Err, lock.ErrTimeout)
	}

	reader := f.waiter(Worker{}, shared)
	f.release(lease)
	f.gets(reader, "a reader after the writer's release")
}

// leaseOfAReaderIsItsOwn has the reader with the short lease come last, and never leave:
// the other one's lease counts.
func leaseOfAReaderIsItsOwn(f *fixture) {
	if !f.promises.Shared {
		f.NotApplicable("it has no readers")
	}
	if f.factory.Renewing {
		f.NotApplicable("its leases renew themselves")
	}
	long := f.read(f.worker())
	f.read(f.brief())

	writer := f.worker()
	end := time.Now().Add(3 * f.factory.TTL)
	for time.Now().Before(end) {
		f.checkHeld(writer, "while a reader with a long lease holds it, "+
			"and the lease of one that came later ends")
		time.Sleep(f.factory.TTL / 16)
	}
	f.release(long)
	f.checkFree(writer, "when one reader has left, and the lease of the other has ended")
}

// handovers is how often readers hand the lock to each other, within a second, before
// the writer counts as starved.
const handovers = 100

// waitingWriterIsServed has each reader take the lock before the last one has left, until
// one is kept out for a writer.
func waitingWriterIsServed(f *fixture) {
	// Longer than the 100 ms for which a busy machine keeps a reader out, and shorter than a lock
	// bars readers for a waiting writer: after that time, 10 s with rw-safe, it lets them in
	// again, and the writer would count as starved.
	brief := Worker{Timeout: 500 * time.Millisecond}
	workers := [2]*locker{f.open(brief), f.open(brief)}
	held := f.read(f.worker())
	writer := f.waiter(Worker{}, lock.Locker.Acquire)

	tick := time.Tick(time.Second / handovers)
	for i := range handovers {
		ctx, cancel := context.WithTimeout(f.Ctx, f.Patience)
		next, err := shared(workers[i%len(workers)], ctx, f.name)
		cancel()

		f.release(held)
		if err != nil { // kept out
			f.gets(writer, "a writer when the readers have gone")
			return
		}
		held = next
		<-tick
	}
	f.release(held)
	f.Errorf("a writer waited while readers handed the lock to each other %d times", handovers)
}

func crashedHolderIsSucceeded(f *fixture) {
	f.needsCrash()
	holder := f.brief()
	f.acquire(holder)
	w := f.waiter(Worker{TTL: f.factory.TTL}, lock.Locker.Acquire)
	f.crash(holder)
	f.gets(w, "a waiter after the holder's crash")
}

func abandonedLeaseExpires(f *fixture) {
	f.needsAbandon()
	holder, other := f.brief(), f.worker()
	f.acquire(holder)
	f.abandon(holder)
	f.release(f.expired(other, "a lease that was neither renewed nor released"))
}

// leftLeaseExpires leaves a lock whose holder lives on: its renewal ends, and
// then the lease does.
func leftLeaseExpires(f *fixture) {
	holder, other := f.brief(), f.worker()
	lease := f.acquire(holder)
	if lease.Abandon == nil {
		if f.factory.Renewing && !f.factory.adapted {
			f.Unchecked("its leases have no Abandon, which would end their renewal")
		}
		return // nothing has to be ended: see abandonedLeaseExpires
	}
	lease.Leave()
	f.release(f.expired(other, "a lease that its holder left"))
}

// crashedWaiterIsPassedOver has two workers wait in line, and the first of them crash: the other
// must get the lock all the same. An attempt in which it is not known that both wait says
// nothing. Another one follows, with twice the TTL, unless the lock has no way to tell.
func crashedWaiterIsPassedOver(f *fixture) {
	f.needsCrash() // before its workers are opened, which else have no proxies
	ttl := f.factory.TTL
	for try := range attempts {
		f.name = newName()
		lease := f.acquire(f.worker())
		dead := f.waiter(Worker{TTL: ttl}, lock.Locker.Acquire)
		next := f.waiter(Worker{TTL: ttl}, lock.Locker.Acquire)
		known := dead.known && next.known
		if known {
			f.crash(dead.locker)
		}

		// On a slow machine the session of the first may end before the other waits, and those
		// who wait may believe, after their own TTL, that it is over.
		ttl *= 2
		err := lease.Release(f.Ctx)
		if errors.Is(err, lock.ErrLost) && try < attempts-1 {
			continue
		}
		if err != nil {
			f.Fatalf("releasing a held lock: %v", err)
		}

		if known {
			f.gets(next, "a waiter behind one that crashed")
			return
		}

		if f.factory.Queued == nil && !dead.known {
			break
		}
	}
	f.Unchecked("it does not report step.Waiting, and there is no hook Queued")
}

func lostLeaseIsCancelled(f *fixture) {
	if f.factory.Lose == nil {
		f.Unchecked("there is no hook Lose")
	}

	lease := f.acquire(f.brief())
	f.factory.Lose(f.TB, f.name)
	select {
	case <-lease.Context().Done():
	case <-time.After(f.Patience):
		f.Fatalf("the lease's context has not ended %s after the loss", f.Patience)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		f.Errorf("the lease's context ended with cause %v, want ErrLost", cause)
	}
	f.checkLost(lease, "after the loss")
}

func worksWhileAMinorityIsDown(f *fixture) {
	if f.factory.StopNode == nil {
		f.Unchecked("there is no hook StopNode")
	}

	holder, other := f.worker(), f.worker()
	lease := f.acquire(holder)
	start := f.factory.StopNode(f.TB)
	f.checkHeldDespite(other, "a held lock while a minority of the servers is down")
	f.release(lease)

	lease = f.acquire(other)
	f.checkHeldDespite(holder, "a lock that was taken while a minority of the servers is down")
	f.release(lease)

	start()
	f.release(f.acquire(holder))
}

// checkHeldDespite is as checkHeld, for a worker whose server may be stopped: Try may fail until
// the worker finds another one.
func (f *fixture) checkHeldDespite(l lock.Locker, why string) {
	f.Helper()
	var err error
	suite.Repeat(f.Patience, func() bool {
		err = f.keptOut(l)
		return err == nil || errors.Is(err, errTaken)
	})
	if err != nil {
		f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
	}
}

// wrongClocksDoNoHarm has clients whose clocks are an hour slow or fast: as competitor,
// as holder and as a dead holder.
func wrongClocksDoNoHarm(f *fixture) {
	if !f.factory.Clock {
		f.Unchecked("Open does not honour Worker.Now")
	}
	f.needsAbandon() // before its workers are opened: see needsCrash
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		f.name = newName()
		clock := func() time.Time {
			return time.Now().Add(off)
		}
		right, other := f.worker(), f.worker()
		wrong := f.open(Worker{Now: clock})

		held := f.acquire(right)
		if err := f.keptOut(other); err != nil {
			f.Unchecked("Try does not work with a right clock either: " + err.Error())
		}
		f.checkHeld(wrong, "a client whose clock is wrong, and the lock is held")
		f.release(held)

		lease := f.try(wrong, "a client whose clock is wrong, and the lock is free")
		f.checkHeld(right, "held by a client whose clock is wrong")
		f.release(lease)
		f.checkFree(right, "released by a client whose clock is wrong")

		if f.promises.SurvivesCrash {
			wrong = f.open(Worker{Now: clock, TTL: f.factory.TTL})
			f.acquire(wrong) // which also begins a session that has ended meanwhile
			f.abandon(wrong)
			f.release(f.expired(right, "a client whose clock is wrong is gone"))
		}
	}
}

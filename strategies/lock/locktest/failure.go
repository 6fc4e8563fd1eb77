package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

func crashedHolderIsSucceeded(f *floor) {
	crash := f.needsCrash()
	name, holder := f.name(), f.open(Worker{TTL: f.ttl()})
	f.acquire(holder, name)
	c := f.waiter(f.ctx, name, Worker{TTL: f.ttl()}, exclusively)
	crash(f.TB, holder)
	if f.subject.Expire != nil {
		f.subject.Expire(f.TB, name)
	}
	f.ends(c, f.patience(), "a waiter after the holder's crash")
	if c.err != nil {
		f.Errorf("a waiter after the holder's crash: %v", c.err)
	}
}

// abandonedLeaseExpires leaves a lock to itself. One that renews itself has to be crashed for that.
func abandonedLeaseExpires(f *floor) {
	name, holder, other := f.name(), f.open(Worker{TTL: f.ttl()}), f.open(Worker{TTL: f.ttl()})
	f.acquire(holder, name)
	if f.subject.Renewing {
		f.needsCrash()(f.TB, holder)
	}
	_ = f.expired(other, name, "a lease that was neither renewed nor released").Release(f.ctx) // its TTL is short too
}

func crashedWaiterIsPassedOver(f *floor) {
	crash := f.needsCrash()
	name := f.name()
	lease := f.acquire(f.worker(), name)
	dead := f.waiter(f.ctx, name, Worker{TTL: f.ttl()}, exclusively)
	next := f.waiter(f.ctx, name, Worker{TTL: f.ttl()}, exclusively)
	crash(f.TB, dead.locker)
	f.release(lease)
	f.ends(next, f.patience(), "a waiter behind one that crashed")
	if next.err != nil {
		f.Errorf("a waiter behind one that crashed: %v", next.err)
	}
}

func (f *floor) needsCrash() func(testing.TB, lock.Locker) {
	f.Helper()
	if f.subject.Crash == nil {
		f.unchecked("there is no hook Crash")
	}
	return f.subject.Crash
}

func lostLeaseIsCancelled(f *floor) {
	if f.subject.Lose == nil {
		f.unchecked("there is no hook Lose")
	}
	name := f.name()
	lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
	f.subject.Lose(f.TB, name)
	select {
	case <-lease.Context().Done():
	case <-time.After(f.patience()):
		f.Fatalf("the lease's context has not ended %s after the loss", f.patience())
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		f.Errorf("the lease's context ended with cause %v, want ErrLost", cause)
	}
	f.lost(lease, "after the loss")
}

func worksWhileAMinorityIsDown(f *floor) {
	if f.subject.StopNode == nil {
		f.unchecked("there is no hook StopNode")
	}
	name, holder, other := f.name(), f.worker(), f.worker()
	lease := f.acquire(holder, name)
	start := f.subject.StopNode(f.TB)
	f.noticed(other, name, "a held lock while a minority of the servers is down")
	f.release(lease)
	lease = f.acquire(other, name)
	f.noticed(holder, name, "a lock that was taken while a minority of the servers is down")
	f.release(lease)
	start()
	f.release(f.acquire(holder, name))
}

// noticed is held, but for a worker whose server may be the one that was stopped: it may fail before it finds another.
func (f *floor) noticed(l lock.Locker, name, why string) {
	f.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(f.patience()); ; <-tick.C {
		err := f.stillHeld(l, name)
		if err == nil {
			return
		}
		if errors.Is(err, errTaken) || time.Now().After(deadline) {
			f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
		}
	}
}

// wrongClocksDoNoHarm uses clients whose clocks are an hour off, either way, as holder and as competitor.
func wrongClocksDoNoHarm(f *floor) {
	if f.subject.Bubble {
		f.clockAstrayDoesNoHarm()
		return
	}
	if !f.subject.Clock {
		f.unchecked("Open does not honour Worker.Now")
	}
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		wrong := Worker{Now: func() time.Time { return time.Now().Add(off) }}
		name, right, skewed := f.name(), f.worker(), f.open(wrong)
		lease := f.acquire(right, name)
		f.held(skewed, name, "a client whose clock is wrong, and the lock is held")
		f.release(lease)
		lease = f.try(skewed, name, "a client whose clock is wrong, and the lock is free")
		f.held(right, name, "held by a client whose clock is wrong")
		f.release(lease)
		f.free(right, name, "released by a client whose clock is wrong")
		if !f.promises.SurvivesCrash || f.subject.Crash == nil {
			continue
		}
		wrong.TTL = f.ttl()
		skewed = f.open(wrong)
		f.acquire(skewed, name)
		f.subject.Crash(f.TB, skewed)
		f.release(f.expired(right, name, "a client whose clock is wrong has crashed"))
	}
}

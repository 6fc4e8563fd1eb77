package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify/internal/suite"
)

func crashedHolderIsSucceeded(f *fixture) {
	f.needsCrash()
	holder := f.brief()
	f.acquire(holder)
	w := f.waiter(f.Ctx, Worker{TTL: f.factory.TTL}, lock.Locker.Acquire)
	f.crash(holder)
	f.gets(w, "a waiter after the holder's crash")
}

// abandonedLeaseExpires neither renews nor releases a lease.
func abandonedLeaseExpires(f *fixture) {
	f.needsAbandon()
	holder, other := f.brief(), f.worker()
	f.acquire(holder)
	f.abandon(holder)
	f.release(f.expired(other, "a lease that was neither renewed nor released"))
}

// leftLeaseExpires leaves a lock whose holder lives on: what renews it ends, and then the lease.
func leftLeaseExpires(f *fixture) {
	holder, other := f.brief(), f.worker()
	lease := f.acquire(holder)
	if lease.Abandon == nil {
		if f.factory.Renewing && !f.factory.plain {
			f.Unchecked("its leases have no Abandon, which would end their renewal")
		}
		return // nothing has to be ended: see abandonedLeaseExpires
	}
	lease.Leave()
	f.release(f.expired(other, "a lease that its holder left"))
}

func crashedWaiterIsPassedOver(f *fixture) {
	f.needsCrash()
	lease := f.acquire(f.worker())
	dead := f.waiter(f.Ctx, Worker{TTL: f.factory.TTL}, lock.Locker.Acquire)
	next := f.waiter(f.Ctx, Worker{TTL: f.factory.TTL}, lock.Locker.Acquire)
	if !dead.known || !next.known {
		f.Unchecked("it does not report step.Waiting, and there is no hook Queued")
	}
	f.crash(dead.locker)
	f.release(lease)
	f.gets(next, "a waiter behind one that crashed")
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
	f.lost(lease, "after the loss")
}

func worksWhileAMinorityIsDown(f *fixture) {
	if f.factory.StopNode == nil {
		f.Unchecked("there is no hook StopNode")
	}
	holder, other := f.worker(), f.worker()
	lease := f.acquire(holder)
	start := f.factory.StopNode(f.TB)
	f.heldDespite(other, "a held lock while a minority of the servers is down")
	f.release(lease)
	lease = f.acquire(other)
	f.heldDespite(holder, "a lock that was taken while a minority of the servers is down")
	f.release(lease)
	start()
	f.release(f.acquire(holder))
}

// heldDespite is held for a worker whose own server may be stopped: Try may fail until the worker finds another server.
func (f *fixture) heldDespite(l lock.Locker, why string) {
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

// wrongClocksDoNoHarm has clients whose clocks are an hour slow or fast: as competitor, as holder and as a dead holder.
func wrongClocksDoNoHarm(f *fixture) {
	if !f.factory.Clock {
		f.Unchecked("Open does not honour Worker.Now")
	}
	f.needsAbandon()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		f.name = newName()
		clock := func() time.Time { return time.Now().Add(off) }
		right, other, wrong := f.worker(), f.worker(), f.open(Worker{Now: clock})
		held := f.acquire(right)
		if err := f.keptOut(other); err != nil {
			f.Unchecked("Try does not work with a right clock either: " + err.Error())
		}
		f.held(wrong, "a client whose clock is wrong, and the lock is held")
		f.release(held)
		lease := f.try(wrong, "a client whose clock is wrong, and the lock is free")
		f.held(right, "held by a client whose clock is wrong")
		f.release(lease)
		f.free(right, "released by a client whose clock is wrong")
		if f.promises.SurvivesCrash {
			wrong = f.open(Worker{Now: clock, TTL: f.factory.TTL})
			f.try(wrong, "a client whose clock is wrong, and the lock is free")
			f.abandon(wrong)
			f.release(f.expired(right, "a client whose clock is wrong is gone"))
		}
	}
}

package locktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

func crashedHolderIsSucceeded(f *fixture) {
	crash := f.needsCrash()
	name, holder := f.name(), f.open(Worker{TTL: f.ttl()})
	f.acquire(holder, name)
	c := f.waiter(f.ctx, name, Worker{TTL: f.ttl()}, exclusively)
	crash(f.TB, holder)
	if f.factory.Expire != nil {
		f.factory.Expire(f.TB, name)
	}
	f.ends(c, f.patience(), "a waiter after the holder's crash")
	if c.err != nil {
		f.Errorf("a waiter after the holder's crash: %v", c.err)
	}
}

// abandonedLeaseExpires neither renews nor releases a lease. The holder of one that renews itself has to crash for
// that.
func abandonedLeaseExpires(f *fixture) {
	name, holder, other := f.name(), f.open(Worker{TTL: f.ttl()}), f.worker()
	f.acquire(holder, name)
	if f.factory.Renewing {
		f.needsCrash()(f.TB, holder)
	}
	f.release(f.expired(other, name, "a lease that was neither renewed nor released"))
}

func crashedWaiterIsPassedOver(f *fixture) {
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

func (f *fixture) needsCrash() func(testing.TB, lock.Locker) {
	f.Helper()
	if f.factory.Crash == nil {
		f.unchecked("there is no hook Crash")
	}
	return f.factory.Crash
}

func lostLeaseIsCancelled(f *fixture) {
	if f.factory.Lose == nil {
		f.unchecked("there is no hook Lose")
	}
	name := f.name()
	lease := f.acquire(f.open(Worker{TTL: f.ttl()}), name)
	f.factory.Lose(f.TB, name)
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

func worksWhileAMinorityIsDown(f *fixture) {
	if f.factory.StopNode == nil {
		f.unchecked("there is no hook StopNode")
	}
	name, holder, other := f.name(), f.worker(), f.worker()
	lease := f.acquire(holder, name)
	start := f.factory.StopNode(f.TB)
	f.heldDespite(other, name, "a held lock while a minority of the servers is down")
	f.release(lease)
	lease = f.acquire(other, name)
	f.heldDespite(holder, name, "a lock that was taken while a minority of the servers is down")
	f.release(lease)
	start()
	f.release(f.acquire(holder, name))
}

// heldDespite is held for a worker whose own server may be stopped: Try may fail until the worker finds another server.
func (f *fixture) heldDespite(l lock.Locker, name, why string) {
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

// needsTry skips the check unless Try works for clients whose clocks are right: what is wrong with it then is found by
// other checks, and says nothing about clocks.
func (f *fixture) needsTry() {
	f.Helper()
	name, holder, other := f.name(), f.worker(), f.worker()
	lease, err := holder.Try(f.ctx, name)
	if err == nil {
		_, err = other.Try(f.ctx, name)
		if lost := lease.Release(f.ctx); !errors.Is(err, lock.ErrHeld) || lost != nil {
			err = errors.Join(errors.New("a held lock was not reported as held"), err, lost)
		} else {
			err = nil
		}
	}
	if err != nil {
		f.unchecked("Try does not work with a right clock either: " + err.Error())
	}
}

// wrongClocksDoNoHarm has clients whose clocks are an hour slow or fast, as holder and as competitor.
func wrongClocksDoNoHarm(f *fixture) {
	if !f.factory.Bubble && !f.factory.Clock {
		f.unchecked("Open does not honour Worker.Now")
	}
	f.needsTry()
	if f.factory.Bubble {
		f.otherTimeDoesNoHarm()
		return
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
		if !f.promises.SurvivesCrash || f.factory.Crash == nil {
			continue
		}
		wrong.TTL = f.ttl()
		skewed = f.open(wrong)
		f.acquire(skewed, name)
		f.factory.Crash(f.TB, skewed)
		f.release(f.expired(right, name, "a client whose clock is wrong has crashed"))
	}
}

// wrongClock is a worker whose wall clock is decades slow, however it reads the time: it runs in a bubble of package
// synctest, where time begins at midnight of 2000-01-01. Time stands still there while the worker computes or waits for
// the network, so it can only Try and Release.
type wrongClock struct {
	tasks chan func(lock.Locker)
	done  chan struct{}
	over  chan struct{}
}

// wrongClock starts such a worker. Its Locker is made and closed in the bubble.
func (f *fixture) wrongClock(w Worker) *wrongClock {
	f.Helper()
	t := realT(f.TB)
	if t == nil {
		f.unchecked("a bubble needs a *testing.T")
	}
	a := &wrongClock{tasks: make(chan func(lock.Locker)), done: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(a.over)
		synctest.Test(t, func(t *testing.T) {
			in := newFixture(t, f.factory)
			l := in.open(w)
			for task := range a.tasks {
				task(l)
				a.done <- struct{}{}
			}
		})
	}()
	f.Cleanup(a.leave)
	return a
}

// realT returns the *testing.T that t is or wraps, or nil.
func realT(t testing.TB) *testing.T {
	for {
		switch at := t.(type) {
		case *testing.T:
			return at
		case interface{ Unwrap() testing.TB }:
			t = at.Unwrap()
		default:
			return nil
		}
	}
}

// does makes the worker do a task, and returns when the task is done.
func (a *wrongClock) does(task func(lock.Locker)) {
	select {
	case a.tasks <- task:
		select {
		case <-a.done:
		case <-a.over:
		}
	case <-a.over: // the worker has failed
	}
}

// leave ends the worker. It releases nothing.
func (a *wrongClock) leave() {
	if a.tasks != nil {
		close(a.tasks)
		a.tasks = nil
	}
	<-a.over
}

// otherTimeDoesNoHarm is wrongClocksDoNoHarm for a lock that reads the time itself.
func (f *fixture) otherTimeDoesNoHarm() {
	name, right := f.name(), f.worker()
	wrong := f.wrongClock(Worker{})
	var lease lock.Lease
	var err error
	try := func(l lock.Locker) { lease, err = l.Try(f.ctx, name) }
	held := f.acquire(right, name)
	if wrong.does(try); !errors.Is(err, lock.ErrHeld) {
		f.Fatalf("a client whose clock is wrong, and the lock is held: Try: %v, want ErrHeld", err)
	}
	f.release(held)
	if wrong.does(try); err != nil {
		f.Fatalf("a client whose clock is wrong, and the lock is free: %v", err)
	}
	f.held(right, name, "held by a client whose clock is wrong")
	if wrong.does(func(lock.Locker) { err = lease.Release(f.ctx) }); err != nil {
		f.Fatalf("a client whose clock is wrong releases: %v", err)
	}
	f.free(right, name, "released by a client whose clock is wrong")
	if !f.promises.SurvivesCrash || f.factory.Renewing { // a bubble cannot end while a goroutine renews
		return
	}
	wrong = f.wrongClock(Worker{TTL: f.ttl()})
	wrong.does(try)
	wrong.leave()
	if err != nil {
		f.Fatalf("a client whose clock is wrong, and the lock is free: %v", err)
	}
	f.release(f.expired(right, name, "a client whose clock is wrong is gone"))
}

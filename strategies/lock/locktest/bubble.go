package locktest

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/marketsim/marketsim/strategies/lock"
)

// astray is a worker whose wall clock is decades slow, whatever it reads it with: it lives in a bubble of package synctest,
// where time begins at midnight of 2000-01-01. Time stands still there while the worker has something to do or waits for
// the network, so that it can only Try and Release.
type astray struct {
	tasks chan func(lock.Locker)
	done  chan struct{}
	over  chan struct{}
}

// astray starts one. Its Locker is made and closed in the bubble.
func (f *floor) astray(w Worker) *astray {
	f.Helper()
	t := realT(f.TB)
	if t == nil {
		f.unchecked("a bubble needs a *testing.T")
	}
	a := &astray{tasks: make(chan func(lock.Locker)), done: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(a.over)
		synctest.Test(t, func(t *testing.T) {
			in := newFloor(t, f.subject)
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

// realT finds the *testing.T behind one that may be wrapped.
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

// does lets the worker do something, and returns when it is done.
func (a *astray) does(task func(lock.Locker)) {
	select {
	case a.tasks <- task:
		select {
		case <-a.done:
		case <-a.over:
		}
	case <-a.over: // it has failed
	}
}

// leave ends the worker, which releases nothing.
func (a *astray) leave() {
	if a.tasks != nil {
		close(a.tasks)
		a.tasks = nil
	}
	<-a.over
}

// clockAstrayDoesNoHarm is wrongClocksDoNoHarm for a lock that cannot be given a clock.
func (f *floor) clockAstrayDoesNoHarm() {
	name, right := f.name(), f.worker()
	wrong := f.astray(Worker{})
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
	if !f.promises.SurvivesCrash || f.subject.Renewing { // who renews cannot be left behind in a bubble
		return
	}
	wrong = f.astray(Worker{TTL: f.ttl()})
	wrong.does(try)
	wrong.leave()
	if err != nil {
		f.Fatalf("a client whose clock is wrong, and the lock is free: %v", err)
	}
	f.release(f.expired(right, name, "a client whose clock is wrong is gone"))
}

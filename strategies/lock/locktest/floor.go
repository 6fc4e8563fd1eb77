package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// A floor is where one check happens.
type floor struct {
	testing.TB
	subject  Subject
	promises lock.Promises
	ctx      context.Context
	missing  string // what the check lacks
	needless bool   // it does not apply to this lock
}

// on runs the check, unless it belongs to a promise that was not made, and tells what became of it when it is over,
// its cleanups included.
func (c check) on(t testing.TB, subject Subject, promises lock.Promises, over func(outcome)) {
	t.Helper()
	f := newFloor(t, subject)
	f.promises = promises
	t.Cleanup(func() {
		if t.Skipped() && f.missing == "" && !f.needless {
			f.missing = "a hook skipped it"
		}
		over(outcome{ran: true, failed: t.Failed(), missing: f.missing})
	})
	for _, p := range promises.List() {
		if p.Name == c.promise && !p.Made {
			f.skip("it does not promise this")
		}
	}
	c.run(f)
}

// newFloor bounds all that happens there, so that a lock that hangs fails with a word about where.
func newFloor(t testing.TB, subject Subject) *floor {
	if subject.TTL == 0 {
		subject.TTL = 200 * time.Millisecond
	}
	if subject.Patience == 0 {
		subject.Patience = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*subject.Patience)
	t.Cleanup(cancel)
	return &floor{TB: t, subject: subject, ctx: ctx}
}

// unchecked ends a check that cannot be made.
func (f *floor) unchecked(why string) {
	f.Helper()
	f.missing = why
	f.Skip("unchecked: " + why)
}

// skip ends a check that does not apply.
func (f *floor) skip(why string) {
	f.Helper()
	f.needless = true
	f.Skip(why)
}

// ttl is one that is to pass.
func (f *floor) ttl() time.Duration { return f.subject.TTL }

// patience is how soon that has to happen which may take a TTL. Nothing waits for it to pass unless the lock fails.
func (f *floor) patience() time.Duration { return f.subject.Patience }

// prompt is how soon that has to happen which waits for nothing.
func (f *floor) prompt() time.Duration { return min(f.patience(), 2*time.Second) }

// longTTL is one that is not to pass.
const longTTL = 30 * time.Second

// open makes a Locker.
func (f *floor) open(w Worker) lock.Locker {
	f.Helper()
	if w.TTL == 0 {
		w.TTL = longTTL
	}
	if w.Timeout == 0 {
		w.Timeout = time.Minute
	}
	l := f.subject.Open(f.TB, w)
	if c, ok := l.(io.Closer); ok {
		f.Cleanup(func() { _ = c.Close() }) // a test may have crashed it
	}
	return l
}

// worker makes a Locker that lets nothing pass: neither TTL nor time-out.
func (f *floor) worker() lock.Locker { return f.open(Worker{}) }

// name is a lock that no other check and no earlier run has used.
func (f *floor) name() string { return "locktest-" + rand.Text() }

// acquire takes a lock that is free or about to be.
func (f *floor) acquire(l lock.Locker, name string) lock.Lease {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, f.patience())
	defer cancel()
	lease, err := l.Acquire(ctx, name)
	if err != nil {
		f.Fatalf("acquiring a free lock: %v", err)
	}
	return lease
}

// try takes a lock that has to be free at once.
func (f *floor) try(l lock.Locker, name, why string) lock.Lease {
	f.Helper()
	lease, err := l.Try(f.ctx, name)
	if err != nil {
		f.Fatalf("%s: Try: %v, want the lock", why, err)
	}
	return lease
}

// release gives a lease back that is held.
func (f *floor) release(lease lock.Lease) {
	f.Helper()
	if err := lease.Release(context.WithoutCancel(f.ctx)); err != nil {
		f.Fatalf("releasing a held lock: %v", err)
	}
}

// lost releases a lease that is not held any more.
func (f *floor) lost(lease lock.Lease, why string) {
	f.Helper()
	if err := lease.Release(f.ctx); !errors.Is(err, lock.ErrLost) {
		f.Errorf("%s: Release: %v, want ErrLost", why, err)
	}
}

// held checks that nobody else can take the lock. That l can would mean that someone lost it.
func (f *floor) held(l lock.Locker, name, why string) {
	f.Helper()
	lease, err := l.Try(f.ctx, name)
	if err == nil {
		_ = lease.Release(f.ctx)
	}
	if !errors.Is(err, lock.ErrHeld) {
		f.Fatalf("%s: Try: %v, want ErrHeld", why, err)
	}
}

// free checks that anybody can take the lock.
func (f *floor) free(l lock.Locker, name, why string) {
	f.Helper()
	f.release(f.try(l, name, why))
}

// expired waits until the TTL of the lock has passed, by trying, and returns it held by l.
func (f *floor) expired(l lock.Locker, name, why string) lock.Lease {
	f.Helper()
	if f.subject.Expire != nil {
		f.subject.Expire(f.TB, name)
	}
	lease := f.within(f.patience(), l, name)
	if lease == nil {
		f.Fatalf("%s: the lock is not free after %s", why, f.patience())
	}
	return lease
}

// within tries until it has the lock. It returns nil if it cannot get it in time.
func (f *floor) within(limit time.Duration, l lock.Locker, name string) lock.Lease {
	f.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		lease, err := l.Try(f.ctx, name)
		// A lock whose time-outs follow from a short TTL may miss one on a busy machine.
		late := errors.Is(err, context.DeadlineExceeded) && f.ctx.Err() == nil
		switch {
		case err == nil:
			return lease
		case !late && !errors.Is(err, lock.ErrHeld):
			f.Fatalf("Try: %v, want the lock or ErrHeld", err)
		case time.Now().After(deadline):
			return nil
		}
	}
}

// takeAway takes the lock from its holder, whose TTL is short, and returns the lease of its next holder.
func (f *floor) takeAway(name string) lock.Lease {
	f.Helper()
	if f.subject.Lose != nil {
		f.subject.Lose(f.TB, name)
		return f.acquire(f.worker(), name)
	}
	if f.subject.Expire != nil {
		f.subject.Expire(f.TB, name)
	}
	next := f.within(10*f.ttl(), f.worker(), name)
	if next == nil {
		f.unchecked("the lock does not expire, and there is no hook Lose")
	}
	return next
}

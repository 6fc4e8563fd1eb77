package locktest

import (
	"context"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/verify"
)

// An Extender is what the closer that an [Open] returns is, too, if locks can be extended.
// [Explore] then has clients extend them within their lease, after it, and when another client
// has had the lock meanwhile, and [Check] has more to check.
type Extender interface {
	// Extend has the lock called name, which the client has taken last, run out a TTL from now.
	// An error says that it is lost, or that this is not known.
	Extend(ctx context.Context, name string) error
}

// A Confined is what the closer that an [Open] returns is, too, if one [Lock] is documented as
// one of a single goroutine at a time: what two of them do with it is then a note.
type Confined interface {
	// Confined does nothing.
	Confined()
}

// extends has a client extend its lock, and reports whether that says yes. It judges whether
// another client had the lock before it asked, or before the last request that changed
// something: then it has lost it.
func (e *exploring) extends(ctx context.Context, u *user) bool {
	var there *stay // nil: it has died, and enter has left it out
	lost := false
	e.update(func() {
		there = e.inside[u.Name]
		if there != nil {
			there.extends = true
			there.atEntry = -1
			lost = e.overtaken(there)
		}
	})

	err := u.extender.Extend(ctx, "lock")
	e.update(func() {
		if there != nil {
			there.extends = false
			lost = lost || there.atEntry >= 0 && u.Seen().Changes > there.atEntry
			there.atEntry = 0 // so that states are told apart by it while it matters alone
		}
		if err == nil && lost && !u.Died() {
			e.finds(verify.ExtendedLost,
				u.Name+" extends the lock, and is told yes, though another client has had it since")
		}
	})
	return err == nil
}

// overtaken reports whether another client has entered since one has. It needs e.mu.
func (e *exploring) overtaken(s *stay) bool { return e.entered > s.number }

// twoGoroutinesWork is how long one works when the other has begun to ask, and
// twoGoroutinesRest how long that waits between two calls. They end at times at which nothing
// else comes to an end in a client that renews, or asks, every few milliseconds or every third
// of a lease: of two goroutines of one client that wake at one instant either may be first.
const (
	twoGoroutinesWork = lease/2 + 9300*time.Microsecond
	twoGoroutinesRest = lease*3/10 + 1700*time.Microsecond
)

// twoGoroutines takes the lock, and has another goroutine of the same client take it with the
// same Lock meanwhile.
func (e *exploring) twoGoroutines(ctx context.Context, u *user) string {
	there, unlock, err := e.takes(ctx, u)
	if err != nil {
		e.update(func() { e.err = err })
		return fmt.Sprintf("has not locked: %v", err)
	}
	e.enter(u.Name, there)

	second := *u
	end := make(chan string)
	second.Name += "'s other goroutine"
	second.rest = twoGoroutinesRest
	go func() {
		end <- e.takesToo(ctx, &second)
	}()

	_ = locking.Sleep(ctx, e.work.lasts, nil)
	err = e.unlock(ctx, u.Session, u.Name, unlock)
	err = e.unlockAgain(ctx, u, err, unlock)
	return fmt.Sprintf("has unlocked: %v; %s", err, <-end)
}

// takesToo is what the other goroutine does: it locks and unlocks.
func (e *exploring) takesToo(ctx context.Context, u *user) string {
	there, unlock, err := e.takes(ctx, u)
	if err != nil {
		return fmt.Sprintf("its other goroutine has not locked: %v", err)
	}
	e.enter(u.Name, there)

	err = e.unlock(ctx, u.Session, u.Name, unlock)
	err = e.unlockAgain(ctx, u, err, unlock)
	return fmt.Sprintf("its other goroutine has unlocked: %v", err)
}

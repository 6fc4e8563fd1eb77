// Package lock holds the locks that go under the locked strategies, one file each, the wrong ones included: a
// flawed lock says in its doc comment what breaks it.
//
// A lock is a [Kind]: its name, where it comes from, its parameters, and a constructor of a [Locker] for one worker.
// [All] lists the kinds of this package. A lock that needs a dependency of its own lives in a package of its own.
package lock

import (
	"context"
	"errors"
)

var (
	// ErrHeld is returned by Try when someone else holds the lock.
	ErrHeld = errors.New("lock is held by someone else")

	// ErrTimeout is returned by Acquire when others held the lock for the whole acquisition time-out.
	ErrTimeout = errors.New("lock was not acquired in time")

	// ErrLost is returned by Release when the lock was no longer held, and is the cause with which the context of
	// a lease is cancelled when the lock is known to be lost.
	ErrLost = errors.New("lock is no longer held")
)

// A Locker takes locks for one worker. It is not safe for concurrent use.
type Locker interface {
	// Acquire takes the lock called name, waiting for it as long as the lock's own time-out and ctx allow; ctx
	// bounds the acquisition only. It returns ErrTimeout when the time-out passed, and ctx's error when ctx ended
	// first. Any other error is the environment's; the lock is then not held, as far as could be made sure.
	Acquire(ctx context.Context, name string) (Lease, error)

	// Try takes the lock if it is free, and returns ErrHeld at once if it is not.
	Try(ctx context.Context, name string) (Lease, error)

	// Promises says what this lock claims. Every claim is checked by package locktest.
	Promises() Promises
}

// A Lease is a lock that is held.
type Lease interface {
	// Context is cancelled, with cause ErrLost, when the lock is known to be lost. A lock that cannot notice never
	// cancels it.
	Context() context.Context

	// Release gives the lock back. It returns ErrLost when the lock was no longer held.
	Release(ctx context.Context) error
}

// A Poller is a Locker that waits by asking again and again.
type Poller interface {
	// Polls is how many attempts have found a lock held, since the Locker was made.
	Polls() int64
}

// Promises is what a lock claims.
type Promises struct {
	OwnerRelease     bool // only its holder can release it
	SurvivesCrash    bool // a crashed holder does not hold it for good
	ClockIndependent bool // clients' clocks may be wrong
	Reentrant        bool // its holder can take it again
	Fair             bool // waiters get it in the order they came
	Fenced           bool // each holder gets a larger number than the one before
	SurvivesNodeLoss bool // it works on while a minority of its servers is down
	NoticesLoss      bool // a lease's context is cancelled when the lock is lost
}

// Package lock holds the locks that go under the locked strategies, one file each, the wrong ones included: a
// flawed lock says in its doc comment what breaks it, and a test breaks it that way.
//
// A lock is a [Kind]: its name, where it comes from, what it promises, its parameters, and a constructor of a
// [Locker] for one worker. [All] lists the kinds of this package: a lock is one file and one line there. A lock that
// needs a dependency of its own lives in a package of its own (zklock, etcdlock, ...).
//
// Most locks are one attempt, repeated until it succeeds, and a release: such a lock is a [grant] handed to [polled].
package lock

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrHeld is returned by Try when someone else holds the lock.
	ErrHeld = errors.New("lock is held by someone else")

	// ErrTimeout is returned by Acquire when others held the lock for the whole acquisition time-out.
	ErrTimeout = errors.New("lock was not acquired in time")

	// ErrLost is returned by Release and Renew when the lock was no longer held, and is the cause with which the
	// context of a lease is cancelled when the lock is known to be lost.
	ErrLost = errors.New("lock is no longer held")

	// ErrServers is returned, wrapped, by Kind.New when the lock needs servers that Env does not name, or another
	// number of them.
	ErrServers = errors.New("lock needs other servers")
)

// A Locker takes locks for one worker. It is not safe for concurrent use. One that also implements io.Closer must be
// closed.
type Locker interface {
	// Acquire takes the lock called name, waiting for it as long as the lock's own time-out and ctx allow; ctx
	// bounds the acquisition only. It returns ErrTimeout when the time-out passed, and ctx's error when ctx ended
	// first. Any other error is the environment's; the lock is then not held, as far as could be made sure.
	Acquire(ctx context.Context, name string) (Lease, error)

	// Try takes the lock if it is free, and returns ErrHeld at once if it is not.
	Try(ctx context.Context, name string) (Lease, error)

	// Promises says what this lock claims with these parameters. Package locktest checks the claims, and reports
	// those that it could not check.
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

// A SharedLocker can be held by many readers or one writer. Acquire and Try take it exclusively.
type SharedLocker interface {
	Locker
	// AcquireShared is Acquire for a reader.
	AcquireShared(ctx context.Context, name string) (Lease, error)
}

// A Reentrant lease can be taken again by its holder. The lock is free when each entry has been released.
type Reentrant interface {
	Lease
	Reenter(ctx context.Context) (Lease, error)
}

// A Renewer is a lease whose end can be put off. Renew may be called beside the worker, on a connection of its own. It
// returns ErrLost when the lock is no longer held, and any other error when that is not known.
type Renewer interface {
	Lease
	Renew(ctx context.Context) error
}

// A Fencer is a lease with a fencing token: a number larger than that of every earlier holder of the lock.
type Fencer interface {
	Lease
	Fence() int64
}

// An Asker is a Locker that knows when it sent the request that took a lock. A lock that expires may do so its TTL after
// that, however late the reply came and however long others held it before.
type Asker interface {
	// Asked is when the last attempt of the last acquisition was about to be sent.
	Asked() time.Time
}

// A Poller is a Locker that waits by asking again and again.
type Poller interface {
	// Polls is how many attempts have found a lock held, since the Locker was made.
	Polls() int64
}

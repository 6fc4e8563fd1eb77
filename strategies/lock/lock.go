// Package lock holds the locks that the locked strategies use, one file each or one for a
// family. Flawed locks are here on purpose: the doc comment of each says what breaks it,
// and a scenario, the search of schedules or a test shows it.
//
// A lock is a [Kind]: its name, its source, its promises, its parameters and a
// constructor of a [Locker] for one worker. [All] lists those of this package. One with a
// dependency of its own is in another (session, library).
//
// CONTRIBUTING.md says how a lock is added. Inside this package one acquisition is a type with
// methods: how it takes the lock, releases it and, if it can, renews it. The function polling
// makes the Kind complete for a lock that waits by trying again, subscribing for one whose
// waiters are notified. Lua scripts are files beside the lock, embedded.
package lock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
)

var (
	// ErrHeld is returned by Try.
	ErrHeld = errors.New("lock is held by someone else")
	// ErrTimeout is returned by Acquire when the time-out has passed, or after as
	// many tries as there may be.
	ErrTimeout = locking.ErrTimeout
	// ErrLost is returned by Release and Renew, and is the cause with which the context
	// of a lease is cancelled.
	ErrLost = locking.ErrLost
	// ErrServers is returned, wrapped, by Kind.New where Env names other servers than it
	// needs, or another number of them.
	ErrServers = errors.New("lock needs other servers")
)

// A Locker takes locks for one worker. It is not safe for concurrent use. If it is an
// io.Closer, it must be closed. If it has a method Polls() int64, that says how many attempts
// have found a lock held since the Locker was made.
//
// A Locker reports its steps to Env.Steps, with the context of the call. Package
// step says which are required.
type Locker interface {
	// Acquire takes the lock called name. It waits as long as the lock's own time-out and
	// ctx allow; ctx bounds the acquisition only. Errors other than ErrTimeout and ctx's
	// come from the environment; the lock is then not held, as far as the Locker could
	// make sure, unless its published flaw is that it does not try (as with setnx).
	Acquire(ctx context.Context, name string) (*Lease, error)

	// Try takes the lock if it is free, and returns ErrHeld at once if it is not.
	Try(ctx context.Context, name string) (*Lease, error)

	// Promises says what this lock claims with these parameters. Package
	// locktest checks that.
	Promises() Promises
}

// A Lease is a lock that is held. What a lock cannot do is nil in its leases. A copy of a
// Lease with some functions replaced stands for the same holding: see WithWatchdog.
type Lease struct {
	// Release gives the lock back. It returns ErrLost when the lock was no longer held. After any
	// other error it is not known whether the lock is free, and Release may be called once more.
	Release func(context.Context) error

	// Abandon leaves the lock to its lease: it ends what renews the lock, and sends
	// nothing about it. A holder does that whose last write may still be on its way: who
	// comes next is to come after it. Nil: nothing has to be ended.
	Abandon func()

	// Noticed is cancelled, with cause ErrLost, when the lock is known to be lost;
	// nil: a loss goes unnoticed.
	Noticed context.Context

	// Renew puts the end of the lock off, over a connection of its own: it may be called
	// while the worker works. An error other than ErrLost says that it is not known
	// whether the lock is held.
	Renew func(context.Context) error

	// Fence is the fencing token: larger than that of every earlier holder of
	// the lock. 0: there is none.
	Fence int64
}

// Context is cancelled, with cause ErrLost, when the lock is known to be lost: never,
// where a loss goes unnoticed.
func (l *Lease) Context() context.Context { return cmp.Or(l.Noticed, context.Background()) }

// Leave calls Abandon, if there is one.
func (l *Lease) Leave() {
	if l.Abandon != nil {
		l.Abandon()
	}
}

// A SharedLocker can be held by many readers or by one writer. Acquire and Try
// take it exclusively.
type SharedLocker interface {
	Locker
	// AcquireShared is Acquire for a reader.
	AcquireShared(ctx context.Context, name string) (*Lease, error)
}

// Promises is what a lock claims. Package locktest checks each claim that is made.
type Promises struct {
	// No two workers hold it at once if holders finish within its TTL, without a crash,
	// a pause or a wrong clock.
	Exclusive        bool
	OwnerRelease     bool // only its holder can release it
	SurvivesCrash    bool // a crashed holder does not hold it for good
	ClockIndependent bool // clients' clocks may be wrong
	Reentrant        bool // its holder can take it again
	Fair             bool // waiters get it in the order in which they came
	Fenced           bool // each holder gets a larger number than the one before
	SurvivesNodeLoss bool // it works while a minority of its servers is down
	NoticesLoss      bool // a lease's context is cancelled when the lock is lost
	Shared           bool // readers share it
	ServesWriters    bool // of a shared lock: a waiting writer gets it though readers keep coming
}

// Promise is one of Promises, by the name that people read.
type Promise struct {
	Name string
	Made bool
}

// List returns all promises in the order in which they are shown. Scenarios of package fault,
// checks of package locktest, package judge and stored results name them by these texts: a
// scenario whose promise is not here is never said to break it.
func (p Promises) List() []Promise {
	return []Promise{
		{"exclusive", p.Exclusive},
		{"owner-only release", p.OwnerRelease},
		{"survives a crash", p.SurvivesCrash},
		{"clock-independent", p.ClockIndependent},
		{"reentrant", p.Reentrant},
		{"fair", p.Fair},
		{"fenced", p.Fenced},
		{"survives node loss", p.SurvivesNodeLoss},
		{"notices loss", p.NoticesLoss},
		{"shared", p.Shared},
		{"serves writers", p.ServesWriters},
	}
}

// A Holding is a record of one worker's time with a lock, as that worker saw it. A
// history of locks consists of these.
type Holding struct {
	Name string
	// The calls of the acquisition and of the release, and their returns. A holder acts
	// from Acquired to Releasing.
	Called, Acquired, Releasing, Released time.Time

	Fence   int64 // the fencing token; 0: the lock has none
	Lost    bool  // the lock was no longer held when it was released
	Noticed bool  // the lease's context had ended before the release
}

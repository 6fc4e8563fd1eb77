// Package step names the points inside an operation where a worker can be
// observed and held.
//
// Strategies and locks call [Observer.At] at each of their steps. Tests and fault
// scenarios pass one that holds the worker until it is let go, so that a failure is shown
// at a chosen point and not by luck.
package step

import "context"

// Name is a point in an operation.
type Name string

// The steps of a strategy, in order. One without a lock has no Between, no BeforeRelease
// and, but for claim, no Acquired; one that takes one lock an operation has no Between.
const (
	Between  Name = "between-locks" // some locks are held, and the next is about to be taken
	Acquired Name = "acquired"      // all locks are held
	// Of a lock that was entered twice: it is about to be left once.
	BeforeLeave   Name = "before-leave"
	Read          Name = "read"           // price, funds or ownership are known
	BeforeWrite   Name = "before-write"   // the decision is made; nothing is written yet
	Written       Name = "written"        // the write was made
	BeforeRelease Name = "before-release" // the locks are about to be released
)

// The steps inside a lock. Waiting is required of every lock whose Acquire can wait: each
// time the lock was found held, the worker announces it just before it sleeps, polls
// again or waits for a message. Tests and scenarios cannot tell a client that waits from
// a slow machine otherwise. The others are for locks that have such a point: Looked and
// Half wherever a second command depends on the answer to a first, or completes it.
const (
	Waiting Name = "waiting"    // the lock was found held, and the worker is about to wait
	Looked  Name = "looked"     // the worker has read whose lock it is, and is about to act on that
	Half    Name = "half-taken" // the first of two commands that take the lock was sent
	Renewed Name = "renewed"    // the lease was renewed in the background
)

// An Observer sees each step of one worker, in the worker's own goroutine:
// while it has not returned, the worker is held. The context is the
// operation's. A nil Observer sees nothing.
type Observer func(ctx context.Context, at Name)

// At tells the observer, if there is one.
func (o Observer) At(ctx context.Context, at Name) {
	if o != nil {
		o(ctx, at)
	}
}

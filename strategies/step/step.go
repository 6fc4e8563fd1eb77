// Package step names the points inside an operation where a worker can be observed and held.
//
// Strategies and locks call [Observer.At] at each of their steps. Without an observer that costs a nil check.
// Tests and fault scenarios pass one that holds the worker (see [Gate]), so that a failure is shown at a chosen
// point and not by luck.
package step

import (
	"context"
	"sync"
	"sync/atomic"
)

// Name is a point in an operation.
type Name string

// The steps of a strategy, in order. A strategy without a lock has no Acquired and no BeforeRelease.
const (
	Acquired      Name = "acquired"       // all locks are held
	Read          Name = "read"           // price, funds or ownership are known
	BeforeWrite   Name = "before-write"   // the decision is made; nothing is written yet
	Written       Name = "written"        // the write was made
	BeforeRelease Name = "before-release" // the locks are about to be released
)

// The steps inside a lock.
const (
	Waiting Name = "waiting"    // it was found held, and the worker is about to wait
	Looked  Name = "looked"     // the worker has looked whose it is, and is about to act on that
	Half    Name = "half-taken" // the first of two commands that take it was sent
	Renewed Name = "renewed"    // the lease was renewed in the background
)

// An Observer sees each step of one worker, in the worker's own goroutine: while it has not returned, the worker is
// held. The context is the operation's. A nil Observer sees nothing.
type Observer func(ctx context.Context, at Name)

// At tells the observer, if there is one, that the worker is at a step.
func (o Observer) At(ctx context.Context, at Name) {
	if o != nil {
		o(ctx, at)
	}
}

// A Gate holds the first worker that comes to a step until it is opened, and nobody else. Make one with Hold.
type Gate struct {
	at      Name
	met     atomic.Bool
	reached chan struct{}
	open    chan struct{}
	opened  sync.Once
}

// Hold returns a gate at a step.
func Hold(at Name) *Gate {
	return &Gate{at: at, reached: make(chan struct{}), open: make(chan struct{})}
}

// Observe is the gate's Observer. A worker whose context ends is let go.
func (g *Gate) Observe(ctx context.Context, at Name) {
	if at != g.at || g.met.Swap(true) {
		return
	}
	close(g.reached)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// Reached is closed when a worker has come to the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets the worker go on. It may be called more than once.
func (g *Gate) Open() { g.opened.Do(func() { close(g.open) }) }

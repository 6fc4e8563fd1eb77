// Package step names the points inside an operation where a worker can be
// observed and held.
//
// Strategies and locks call [Observer.At] at each of their steps. Tests and fault
// scenarios pass one that holds the worker (see [Gate]), so that a failure is shown at a
// chosen point and not by luck.
package step

import (
	"context"
	"slices"
	"sync"
)

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

// A Point is where a [Gate] holds a worker.
type Point struct {
	At    Name
	After Name // hold only once this step was passed; empty: at once
}

// A Gate holds a worker at each of its points, once each: the first worker that comes
// there, until it is let go. With one point it may watch many workers, with several it is
// meant for one. Make one with [Hold] or [HoldEach].
type Gate struct {
	onHold  func(Name)
	reached chan struct{}
	reach   func() // closes reached, the first time

	mu     sync.Mutex
	points []Point // where it has not held anybody yet
	passed map[Name]bool
	opened bool          // it holds nobody any more
	next   chan struct{} // closed to let go the workers that are held; nil: none is
}

// Hold returns a gate with one point.
func Hold(at Name) *Gate { return HoldEach(nil, Point{At: at}) }

// HoldEach returns a gate with any points. Before each hold it calls onHold, unless
// nil, in the worker's goroutine.
func HoldEach(onHold func(Name), points ...Point) *Gate {
	g := &Gate{onHold: onHold, points: slices.Clone(points), passed: map[Name]bool{}, reached: make(chan struct{})}
	g.reach = sync.OnceFunc(func() { close(g.reached) })
	return g
}

// Observe is the gate's [Observer]. A worker whose context ends is let go.
func (g *Gate) Observe(ctx context.Context, at Name) {
	next := g.hold(at)
	if next == nil {
		return
	}
	if g.onHold != nil {
		g.onHold(at)
	}
	select {
	case <-next:
	case <-ctx.Done():
	}
}

// hold notes that a worker has come to a step, and returns a channel to wait for if the
// gate holds it there, else nil.
func (g *Gate) hold(at Name) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.points, func(p Point) bool { return p.At == at && (p.After == "" || g.passed[p.After]) })
	g.passed[at] = true
	if i < 0 {
		return nil
	}
	g.points = slices.Delete(g.points, i, i+1)
	g.reach()
	if g.opened {
		return nil
	}
	if g.next == nil {
		g.next = make(chan struct{})
	}
	return g.next
}

// Reached is closed when a worker has come to a point, for the first time.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Next lets the worker go on to the next point. If none is held, it does nothing.
func (g *Gate) Next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
}

// Open lets the worker go on, and holds nobody any more.
func (g *Gate) Open() {
	g.mu.Lock()
	g.opened = true
	g.mu.Unlock()
	g.Next()
}

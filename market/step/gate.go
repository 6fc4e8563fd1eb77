package step

import (
	"context"
	"slices"
	"sync"
)

// A Breakpoint is where a [Gate] holds a worker.
type Breakpoint struct {
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
	points []Breakpoint // where it has not held anybody yet
	passed map[Name]bool
	opened bool          // it holds nobody any more
	next   chan struct{} // closed to let go the workers that are held; nil: none is
}

// Hold returns a gate with one point.
func Hold(at Name) *Gate { return HoldEach(nil, Breakpoint{At: at}) }

// HoldEach returns a gate with any points. Before each hold it calls onHold, unless
// nil, in the worker's goroutine.
func HoldEach(onHold func(Name), points ...Breakpoint) *Gate {
	g := &Gate{
		onHold:  onHold,
		points:  slices.Clone(points),
		passed:  map[Name]bool{},
		reached: make(chan struct{}),
	}
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
// gate holds it there, else nil. A gate that is open still tells, by reached, that a worker
// has come to a point.
func (g *Gate) hold(at Name) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()

	due := func(p Breakpoint) bool { return p.At == at && (p.After == "" || g.passed[p.After]) }
	i := slices.IndexFunc(g.points, due)
	g.passed[at] = true // after the look at points: no step is after itself
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

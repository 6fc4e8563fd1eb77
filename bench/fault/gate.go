package fault

import (
	"context"
	"slices"
	"sync"

	"github.com/marketsim/marketsim/strategies/step"
)

// gate holds a client's operation at each of several points, once at each, until it is opened.
type gate struct {
	report func(step.Name)

	mu     sync.Mutex
	points []Point // where it is still to be held
	passed map[step.Name]bool
	shut   chan struct{} // closed to let the held one go; nil: nobody is held
}

// set says where the next operation is to be held.
func (g *gate) set(points []Point) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.points, g.passed = points, map[step.Name]bool{}
}

// observe is a step.Observer.
func (g *gate) observe(_ context.Context, at step.Name) {
	g.mu.Lock()
	if g.passed == nil { // before the first operation
		g.mu.Unlock()
		return
	}
	i := slices.IndexFunc(g.points, func(p Point) bool {
		return p.At == at && (p.After == "" || g.passed[p.After])
	})
	g.passed[at] = true
	if i < 0 {
		g.mu.Unlock()
		return
	}
	g.points = slices.Delete(g.points, i, i+1)
	shut := make(chan struct{})
	g.shut = shut
	g.mu.Unlock()
	g.report(at)
	<-shut
}

// open lets the held one go.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// abandon lets the operation go on to its end.
func (g *gate) abandon() {
	g.mu.Lock()
	g.points = nil
	g.mu.Unlock()
	g.open()
}

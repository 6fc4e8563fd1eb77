package explore

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// Call opens a call: it returns a context for it, which ends when ctx does, when end is
// called, or when the search strikes it with [Cancel]. All calls that a client has open are
// struck at once, as those that serve one user are. A client opens a call for each operation
// that its users may give up, and ends it when the operation has returned.
func (s *Session) Call(ctx context.Context) (call context.Context, end func()) {
	within, cancel := context.WithCancel(ctx)
	if !s.world.cancels { // contexts that are derived then end in this goroutine
		return within, cancel
	}
	opened := &callContext{Context: within, caller: ctx, cancel: cancel}

	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	client := s.world.clients[s.client]
	client.calls = append(client.calls, opened)
	return opened, func() { s.endCall(opened) }
}

func (s *Session) endCall(c *callContext) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	client := s.world.clients[s.client]
	client.calls = slices.DeleteFunc(client.calls, func(other *callContext) bool {
		return other == c
	})
	c.cancel()
}

// A callContext is the context of a call. Its deadline may come at any time, though the time
// of a schedule stands still: context.WithDeadline cannot do that.
type callContext struct {
	context.Context // ends with the call
	caller          context.Context
	cancel          context.CancelFunc
	deadlineCame    atomic.Bool
}

// Err implements context.Context.
func (c *callContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.deadlineCame.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements context.Context. It is the caller's: contexts that are derived from this
// one would else find the embedded one, and end with its error.
func (c *callContext) Value(key any) any { return c.caller.Value(key) }

// AfterFunc has package context start no goroutine for each context that is derived.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, f)
}

// How calls end, in Choice.At of a Cancel: cancelled or by their deadline, and what becomes
// of requests that wait on connections which the client then closes.
const (
	cancelled = 1 + iota
	deadline
	cancelledOnItsWay // what the client has sent comes at any time, as if it were Late
	deadlineOnItsWay
)

// cancels are the choices to end the calls of a client. That a request is on its way makes a
// difference only where one waits.
func (e *explorer) cancels(w *world) (options []search.Choice) {
	if !e.mayStrike(w, Cancel) {
		return nil
	}
	for i, c := range w.clients {
		isOpen := func(c *callContext) bool { return c.Err() == nil }
		if !c.alive() || !c.paused.IsZero() || !slices.ContainsFunc(c.calls, isOpen) {
			continue
		}

		ways := []int{cancelled, deadline}
		if w.next(i) != nil {
			ways = append(ways, cancelledOnItsWay, deadlineOnItsWay)
		}
		for _, way := range ways {
			options = append(options, search.Choice{What: string(Cancel), N: i, At: way})
		}
	}
	return options
}

// cancelCalls ends the calls of a client.
func (w *world) cancelCalls(c search.Choice, _ *request) {
	does, err := "*its call is cancelled*", context.Canceled
	if c.At == deadline || c.At == deadlineOnItsWay {
		does, err = "*the deadline of its call comes*", context.DeadlineExceeded
	}
	w.draw(verify.Event{Client: c.N, Does: does}, nil)

	// sends is set until the client has come to rest: by it closed tells what becomes of requests
	// on connections that the client closes meanwhile.
	w.mu.Lock()
	calls := w.clients[c.N].calls
	w.clients[c.N].calls = nil
	w.clients[c.N].sends = c.At == cancelledOnItsWay || c.At == deadlineOnItsWay
	w.learns(c.N, "its call ends: %v", err)
	w.mu.Unlock()

	for _, call := range calls {
		// Before cancel: once the call has ended, Err looks at deadlineCame to say why.
		call.deadlineCame.Store(err == context.DeadlineExceeded)
		call.cancel()
	}
	w.settle()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[c.N].sends = false
}

// closed is called when the client closes its end of a connection. What it has sent is lost,
// unless it is on its way: then it comes late.
func (c *conn) closed() {
	c.world.mu.Lock()
	if c.client != nobody && c.world.clients[c.client].sends && !c.held {
		for _, r := range c.waiting {
			r.deaf = true
			c.world.late = append(c.world.late, r)
		}
	}
	c.world.mu.Unlock()

	c.cut()
	wire.Signal(c.world.arrived)
}

package strategies

import (
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// holds reports each lock that was held, once it has been released. Without a hook that costs a nil check.
type holds struct {
	report func(lock.Hold) // may be nil
	next   lock.Hold       // the one being acquired
	held   []lock.Hold
}

// call notes that a lock is about to be acquired.
func (h *holds) call(name string, shared bool) {
	if h.report != nil {
		h.next = lock.Hold{Name: name, Shared: shared, Called: time.Now()}
	}
}

// acquired notes that the lock is now held.
func (h *holds) acquired(lease lock.Lease) {
	if h.report == nil {
		return
	}
	h.next.Acquired = time.Now()
	if f, ok := lease.(lock.Fencer); ok {
		h.next.Fence = f.Fence()
	}
	h.held = append(h.held, h.next)
}

// release releases the lock that was acquired last of those still held.
func (h *holds) release(ctx context.Context, lease lock.Lease) error {
	if h.report == nil {
		return lease.Release(ctx)
	}
	last := len(h.held) - 1
	hold := h.held[last]
	h.held = h.held[:last]
	hold.Releasing = time.Now()
	hold.Noticed = lease.Context().Err() != nil // after that moment: a loss before it must not pass for a hold until then
	err := lease.Release(ctx)
	hold.Released = time.Now()
	hold.Lost = hold.Noticed || errors.Is(err, lock.ErrLost)
	h.report(hold)
	return err
}

package chaos

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// turnstile is where all workers of a row pass at each of their steps, and where one can be held.
type turnstile struct {
	wanted atomic.Pointer[hold]
}

// hold is a pause that waits for a worker, and then holds it.
type hold struct {
	at      step.Name
	seller  bool
	length  time.Duration
	reached chan struct{} // closed when it holds somebody
	healed  chan struct{} // closed to let go
}

func newHold(f Fault) *hold {
	return &hold{
		at: f.Step, seller: f.Seller, length: f.Length, reached: make(chan struct{}), healed: make(chan struct{}),
	}
}

// observer sees the steps of one worker. When nobody is to be held it costs one atomic read.
func (t *turnstile) observer(seller bool) step.Observer {
	return func(ctx context.Context, at step.Name) {
		h := t.wanted.Load()
		if h == nil || h.at != at || h.seller != seller || !t.wanted.CompareAndSwap(h, nil) {
			return
		}
		close(h.reached)
		select {
		case <-time.After(h.length):
		case <-h.healed:
		case <-ctx.Done():
		}
	}
}

// strike holds the first worker who comes by, until its time is up or ctx ends, and reports whether one came.
func (t *turnstile) strike(ctx context.Context, h *hold, patience time.Duration) bool {
	t.wanted.Store(h)
	defer close(h.healed)
	select {
	case <-h.reached:
	case <-ctx.Done():
	case <-time.After(patience):
	}
	if t.wanted.CompareAndSwap(h, nil) {
		return false
	}
	<-h.reached
	sleep(ctx, h.length)
	return true
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

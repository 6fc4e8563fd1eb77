package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/strategies/lock"
)

// lease is a place that is first in line.
type lease struct {
	place *place
	ctx   context.Context
	fence int64
}

// Context implements lock.Lease: it ends with the session.
func (l *lease) Context() context.Context { return l.ctx }

// Fence implements lock.Fencer: the czxid of the node.
func (l *lease) Fence() int64 { return l.fence }

// Release implements lock.Lease. It does not wait for a connection that is lost: the node is then removed beside the
// worker, or with the session.
func (l *lease) Release(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	err := l.place.locker.remove(ctx, l.place)
	if cause := context.Cause(l.ctx); errors.Is(cause, lock.ErrLost) {
		err = lock.ErrLost // should the session live on after all, its holder was told otherwise
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", l.place.dir, err)
	}
	return nil
}

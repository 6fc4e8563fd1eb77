package lock

import (
	"context"
	"sync"
	"time"
)

// validity is a context that ends with ErrLost when a lock is surely held no longer, by the client's monotonic clock.
type validity struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	timer  *time.Timer
}

func newValidity(end time.Time) *validity {
	v := &validity{}
	v.ctx, v.cancel = context.WithCancelCause(context.Background())
	v.timer = time.AfterFunc(time.Until(end), func() { v.cancel(ErrLost) })
	return v
}

// extend puts the end off. It reports false when it has come already.
func (v *validity) extend(end time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil || !v.timer.Stop() {
		return false
	}
	v.timer.Reset(time.Until(end))
	return true
}

// stop lets the end not come any more: the lock is given back.
func (v *validity) stop() { v.timer.Stop() }

package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// brake stops the workers of a row: when time is up, when the user says so, or when the environment failed. Workers
// look at it between two operations.
type brake struct {
	pulled atomic.Bool
	once   sync.Once
	done   chan struct{}
	at     time.Time // when it was pulled
	status Status    // what that makes of the row
	cause  error     // why the row is incomplete

	mu   sync.Mutex
	late error // the first failure after that, in an operation that was finished
}

func newBrake() *brake { return &brake{done: make(chan struct{})} }

// pull stops the workers; the first reason counts. A later failure is kept as a warning.
func (b *brake) pull(status Status, cause error) {
	first := false
	b.once.Do(func() {
		first = true
		b.at, b.status, b.cause = time.Now(), status, cause
		b.pulled.Store(true)
		close(b.done)
	})
	if !first && cause != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.late == nil {
			b.late = cause
		}
	}
}

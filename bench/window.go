package bench

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/results/stored"
)

// A window is when a row is measured, and when its load ends. Times are in ns after the warm-up. It is over after its
// length, or earlier: at an interrupt, a failure, or when no buyer is left. After it see [measurement.work].
type window struct {
	from   time.Time     // the end of the warm-up
	length time.Duration // 0: it is over when no buyer is left
	until  atomic.Int64  // when it is over, or will be
	over   chan struct{} // closed then, or earlier than planned

	stopped atomic.Bool   // no worker begins an operation any more
	done    chan struct{} // closed then

	ending, stopping, failing sync.Once

	status  stored.Status
	failure error // the first operation that failed because of the environment
}

// forever is when a window is over whose end is not known.
const forever = math.MaxInt64

func newWindow() *window {
	return &window{over: make(chan struct{}), done: make(chan struct{}), status: stored.Complete}
}

// begin fixes when the window begins and, unless length is 0, when it ends. No worker works yet.
func (w *window) begin(warmup, length time.Duration) {
	w.from, w.length = time.Now().Add(warmup), length
	w.until.Store(cmp.Or(int64(length), forever))
}

// at is a time as the window tells it.
func (w *window) at(t time.Time) int64 { return int64(t.Sub(w.from)) }

func (w *window) holds(at int64) bool { return at >= 0 && at < w.until.Load() }

// clip is the part of a time from start to end that is in the window.
func (w *window) clip(start, end int64) time.Duration {
	return time.Duration(max(0, min(end, w.until.Load())-max(start, 0)))
}

func (w *window) end() {
	w.ending.Do(func() {
		w.until.Store(min(w.until.Load(), w.at(time.Now())))
		close(w.over)
	})
}

// stop asks the workers to stop, and ends the measured time if it is not over. The first call decides on the status.
func (w *window) stop(status stored.Status) {
	w.end()
	w.stopping.Do(func() {
		w.stopped.Store(true)
		w.status = status
		close(w.done)
	})
}

func (w *window) fail(err error) {
	w.failing.Do(func() { w.failure = err })
	w.stop(stored.Incomplete)
}

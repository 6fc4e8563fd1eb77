package load

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/market"
)

// durations are some durations of one kind: their sum, the longest, and a histogram from
// 1 us to 60 s with two significant digits, which takes 20 KB. Those of a kind that a
// worker never measures have none, and stay empty.
type durations struct {
	sum, longest time.Duration
	clipped      int64 // durations above 60 s, which the histogram holds as 60 s
	histogram    *hdrhistogram.Histogram
}

const longestTime = 60 * time.Second

func newDurations() durations {
	return durations{histogram: hdrhistogram.New(1, longestTime.Microseconds(), 2)}
}

func (t *durations) note(d time.Duration) {
	if t.histogram == nil {
		return
	}
	t.sum += d
	t.longest = max(t.longest, d)
	if d > longestTime {
		d = longestTime
		t.clipped++
	}
	_ = t.histogram.RecordValue(d.Microseconds()) // cannot fail: the value is in range
}

func (t *durations) add(b *durations) {
	if b.histogram != nil {
		t.sum += b.sum
		t.longest = max(t.longest, b.longest)
		t.clipped += b.clipped
		t.histogram.Merge(b.histogram)
	}
}

type kind int

const (
	purchaseTime kind = iota
	serviceTime       // of purchases in an open loop, from when a buyer took the order up
	refusedTime
	lockWaitTime
	listTime
	kinds // how many there are
)

// counter is a number that workers count. A new one is a line here, one that
// counts it, and one in row.go.
type counter int

const (
	// Of operations that ended in the window.
	listed counter = iota
	bought
	leftOver // of those bought, the ones asked for in the warm-up

	// Of operations that began in it.
	retries // of orders
	listRetries
	polls
	listPolls
	contendedBeside // listings that gave up under contention
	unknown
	leasesLost
	failedReleases
	late      // orders of an open loop: bought, but after the SLO
	due       // those that a buyer took; report adds the others
	fulfilled // those that ended in a purchase
	fulfilledInTime
	givenUp // those that ended without one
	givenUpInTime

	fromWarmup // operations of the warm-up that ended in the second half of the window or later
	broke      // workers that ended because their account was empty
	counters   // how many there are
)

// A tally is what one worker counts, added once at the end. It takes no mutex, and
// allocates only for new reasons.
type tally struct {
	window  *window
	count   [counters]int64
	refused map[string]int64 // of operations that began in the window, by market.Reason
	took    [kinds]durations // of operations that began in it

	lockHold time.Duration // of purchases that began in it
	traffic  traffic       // of orders that began in it

	// Clipped to the window: how long a buyer was there, how long a worker did anything
	// or waited for something to buy, and how long it made orders. ordersWhole is how
	// long orders that began in the window took, not clipped.
	present, busy, orders, ordersWhole time.Duration

	course course // of a buyer
}

func newTally(w *window, of ...kind) *tally {
	t := &tally{window: w, refused: map[string]int64{}}
	for _, k := range of {
		t.took[k] = newDurations()
	}
	if slices.Contains(of, purchaseTime) {
		t.course = newCourse()
	}
	return t
}

// add adds what another tally of the row has counted: each field but the window. t must time
// every kind that b does, as that of measurement.row does: it needs a histogram for each.
func (t *tally) add(b *tally) {
	for c, n := range b.count {
		t.count[c] += n
	}
	for reason, n := range b.refused {
		t.refused[reason] += n
	}
	for k := range b.took {
		t.took[k].add(&b.took[k])
	}

	t.lockHold += b.lockHold
	t.traffic = t.traffic.add(b.traffic)
	t.present += b.present
	t.busy += b.busy
	t.orders += b.orders
	t.ordersWhole += b.ordersWhole
	t.course.add(&b.course)
}

// traffic is what a worker and its locks exchanged with servers, except in the
// background or over shared connections.
type traffic struct{ market, lockServers redisconn.Counts }

func (t traffic) sub(b traffic) traffic {
	return traffic{t.market.Sub(b.market), t.lockServers.Sub(b.lockServers)}
}

func (t traffic) add(b traffic) traffic {
	return traffic{t.market.Add(b.market), t.lockServers.Add(b.lockServers)}
}

// A span is when an operation was made. It was asked for at its start or, in an
// open loop, when it was due.
type span struct{ asked, start, end int64 }

// operation counts what all operations have in common, and reports whether it
// was asked for in the window.
func (t *tally) operation(s span, receipt market.Receipt, err error) bool {
	if s.start < 0 && s.end >= int64(t.window.length)/2 {
		t.count[fromWarmup]++
	}
	if !t.window.holds(s.asked) {
		return false
	}

	t.count[failedReleases] += int64(receipt.ReleasesFailed)
	if receipt.LeaseLost {
		t.count[leasesLost]++
	}
	if err != nil {
		if reason := market.Reason(err); reason != "" {
			t.refused[reason]++
		} else {
			t.count[unknown]++
		}
	}
	return true
}

// listed counts a listing: its success if it ended in the window, its busy time as far as it
// lies there, and its waits and costs if it began there.
func (t *tally) listed(s span, receipt market.Receipt, err error) {
	if err == nil && t.window.holds(s.end) {
		t.count[listed]++
	}
	t.spent(s)
	if !t.operation(s, receipt, err) {
		return
	}

	t.count[listRetries] += int64(receipt.Retries)
	t.count[listPolls] += int64(receipt.Polls)
	if market.Reason(err) == market.Reason(market.ErrContended) {
		t.count[contendedBeside]++
	}
	if err == nil {
		t.took[listTime].note(time.Duration(s.end - s.start))
	}
}

// ordered counts an order: its success, also in the course, if it ended in the window, its busy
// time as far as it lies there, and its waits and costs if it was asked for there. tell may be
// reading the course, so that the worker must be noting: see [worker.settle].
func (t *tally) ordered(s span, cost traffic, receipt market.Receipt, err error) {
	if err == nil && t.window.holds(s.end) {
		t.count[bought]++
		if s.asked < 0 {
			t.count[leftOver]++
		}
		// A window without length, whose intervals are 0 ns, holds no end.
		t.course[min(s.end/t.window.interval(), courseIntervals-1)].note(time.Duration(s.end - s.asked))
	}
	t.spent(s)
	t.orders += t.window.clip(s.start, s.end)
	if !t.operation(s, receipt, err) {
		return
	}

	t.ordersWhole += time.Duration(s.end - s.start)
	t.count[retries] += int64(receipt.Retries)
	t.count[polls] += int64(receipt.Polls)
	t.traffic = t.traffic.add(cost)
	switch {
	case err == nil:
		t.took[purchaseTime].note(time.Duration(s.end - s.asked))
		t.took[lockWaitTime].note(receipt.LockWait)
		t.lockHold += receipt.LockHold
	case market.Refused(err): // an open loop's order may try several listings: each counts by itself
		t.took[refusedTime].note(time.Duration(s.end - s.start))
	}
}

func (t *tally) spent(s span) { t.busy += t.window.clip(s.start, s.end) }

// A window is when a row is measured, and when its load ends. Times are in ns after the
// warm-up. It is over after its length, or earlier: at an interrupt, a failure, or when
// no buyer is left. [measurement.work] says what follows it.
type window struct {
	from   time.Time // the end of the warm-up
	length time.Duration
	until  atomic.Int64  // when it is over, or will be
	over   chan struct{} // closed when it is over

	stopped atomic.Bool   // no worker begins an operation any more
	done    chan struct{} // closed when that is so

	ending, stopping, failing sync.Once

	status  string
	failure error // the first operation that failed because of the environment
}

func newWindow() *window {
	return &window{over: make(chan struct{}), done: make(chan struct{}), status: stored.Complete}
}

// begin fixes when the window begins and when it ends. No worker works yet.
func (w *window) begin(warmup, length time.Duration) {
	w.from = time.Now().Add(warmup)
	w.length = length
	w.until.Store(int64(length))
}

func (w *window) at(t time.Time) int64 { return int64(t.Sub(w.from)) }

func (w *window) holds(at int64) bool { return at >= 0 && at < w.until.Load() }

func (w *window) clip(start, end int64) time.Duration {
	return time.Duration(max(0, min(end, w.until.Load())-max(start, 0)))
}

// end ends the measured time, if it is not over. The load goes on until stop.
func (w *window) end() {
	w.ending.Do(func() {
		w.until.Store(min(w.until.Load(), w.at(time.Now())))
		close(w.over)
	})
}

// stop asks the workers to stop, and ends the measured time if it is not over. The
// first call decides on the status.
func (w *window) stop(status string) {
	w.stopping.Do(func() {
		w.status = status // before end wakes somebody who may stop it, too
		w.end()
		w.stopped.Store(true)
		close(w.done)
	})
}

// fail stops the row because of the environment. The failure counts even if the window was
// stopped before.
func (w *window) fail(err error) {
	w.failing.Do(func() { w.failure = err })
	w.stop(stored.Incomplete)
}

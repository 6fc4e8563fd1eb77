package bench

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
)

// ringSize is how many samples a worker can be ahead of the collector. It is a power of two.
const ringSize = 256

// drainEvery is how often the collector takes what workers have recorded. Waking up more often takes a busy machine from
// those whose work is measured: every 5 ms, a worker alone reached 0.92 of a bare loop instead of 0.97.
const drainEvery = 50 * time.Millisecond

// wait is one of the times that are recorded.
type wait uint8

const (
	purchaseWait wait = iota
	listWait
	givenUpWait
	lockWait
	browseWait
	serviceWait // of purchases in an open loop
	waits       // how many there are
)

// sample is one time of one operation, as a worker hands it to the collector.
type sample struct {
	start int64 // when the operation began, in ns since the collector was made
	took  int64 // ns
	tries int32 // of a purchase: 1, its retries, and attempts that did not get a lock
	wait  wait
}

// ring is the queue of samples from one worker to the collector. Only the worker moves the tail, and only the collector
// the head, so that neither needs a lock: the bounded buffer of L. Lamport, "Proving the correctness of multiprocess
// programs" (1977).
type ring struct {
	tail, head atomic.Uint64 // samples put in and taken out so far
	samples    [ringSize]sample
}

// put reports whether there was room for the sample.
func (r *ring) put(s sample) bool {
	tail := r.tail.Load()
	if tail-r.head.Load() == ringSize {
		return false
	}
	r.samples[tail%ringSize] = s
	r.tail.Store(tail + 1)
	return true
}

// halfFull reports whether the worker should look for room. It is asked after each put, and true once in half a ring.
func (r *ring) halfFull() bool {
	tail := r.tail.Load()
	return tail%(ringSize/2) == 0 && tail-r.head.Load() >= ringSize/2
}

// take hands every sample in the ring to f, in order.
func (r *ring) take(f func(*sample)) {
	head, tail := r.head.Load(), r.tail.Load()
	for ; head != tail; head++ {
		f(&r.samples[head%ringSize])
	}
	r.head.Store(head)
}

// collector sums the times that all workers of a row recorded. A histogram of its own for each worker would take 140 KB
// and more: 1,000 workers had 400 MB of them, mostly zeros. Instead a worker puts samples into a small ring, which takes
// it neither a lock nor an allocation, and the collector takes them out now and then. A worker whose ring is half full
// takes them out itself, between two operations, if the collector's lock is free. Only one whose ring is full waits for
// that lock: no sample is lost, and recorder.blocked counts how often that was.
type collector struct {
	made time.Time
	from atomic.Int64 // operations that began earlier are warm-up, and are not counted: ns since made

	mu      sync.Mutex // for what follows
	rings   []*ring
	took    [waits]*hdrhistogram.Histogram
	tries   *hdrhistogram.Histogram // of purchases
	clipped int64                   // times above highestWait
	step    time.Duration           // of the course
	course  []int64                 // purchases by the step in which they began; empty: none is kept
}

func newCollector() *collector {
	c := &collector{made: time.Now(), tries: newHistogram()}
	for w := range c.took {
		c.took[w] = newHistogram()
	}
	return c
}

// ring adds the ring of one more worker.
func (c *collector) ring() *ring {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := new(ring)
	c.rings = append(c.rings, r)
	return r
}

// since is a time as samples tell it.
func (c *collector) since(at time.Time) int64 { return int64(at.Sub(c.made)) }

// never is a start of the measured time that has not been decided on yet.
const never = math.MaxInt64

// begin says when the warm-up ends. The time lies in the future, or no worker has begun: so each operation is judged once
// and by the same time.
func (c *collector) begin(at time.Time) { c.from.Store(c.since(at)) }

// run drains the rings until the returned function is called.
func (c *collector) run() (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(drainEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.drain()
			case <-stop:
				c.drain()
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// drain takes what all workers have recorded so far.
func (c *collector) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rings {
		r.take(c.add)
	}
}

// makeRoom takes what one worker has recorded.
func (c *collector) makeRoom(r *ring) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.take(c.add)
}

// tryMakeRoom does so unless somebody else is at it.
func (c *collector) tryMakeRoom(r *ring) {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		r.take(c.add)
	}
}

// add counts a sample. The caller holds the lock.
func (c *collector) add(s *sample) {
	us := s.took / int64(time.Microsecond)
	if us > highestWait {
		us = highestWait
		c.clipped++
	}
	_ = c.took[s.wait].RecordValue(us) // cannot fail: the value is in range
	if s.wait != purchaseWait {
		return
	}
	_ = c.tries.RecordValue(min(int64(s.tries), highestWait))
	if last := len(c.course) - 1; last >= 0 { // one that began as the row ended belongs to the last step
		c.course[min(int((s.start-c.from.Load())/int64(c.step)), last)]++
	}
}

// totals are the times and the tries that all workers have recorded so far.
func (c *collector) totals() (took [waits]*hdrhistogram.Histogram, tries *hdrhistogram.Histogram, clipped int64) {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, h := range c.took {
		took[w] = newHistogram()
		took[w].Merge(h)
	}
	tries = newHistogram()
	tries.Merge(c.tries)
	return took, tries, c.clipped
}

// courseSteps is in how many steps the course of a row is kept, and shortestStep how long they are at least.
const (
	courseSteps  = 100
	shortestStep = 10 * time.Millisecond
)

// keepCourse makes the collector count the purchases of a row of so long in steps.
func (c *collector) keepCourse(duration time.Duration) {
	c.step = max(duration/courseSteps, shortestStep)
	c.course = make([]int64, (duration+c.step-1)/c.step)
}

// series is the course of a row that took so long; nil: none was kept, or nothing was measured.
func (c *collector) series(took time.Duration) *result.Series {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.course) == 0 || took <= 0 {
		return nil
	}
	steps := min(int((took+c.step-1)/c.step), len(c.course)) // a row ends a moment late
	return &result.Series{StepSeconds: c.step.Seconds(), Purchases: c.course[:steps:steps]}
}

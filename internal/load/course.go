package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
)

const courseIntervals = 20 // how many intervals the course of a row has

// A course is how long purchases took, by the interval of the measured time in which they
// ended. A worker has all its intervals from the beginning, so that it never allocates one,
// and writes to each until the interval is over: others may read it then, without a lock
// (see [worker.settle]).
type course [courseIntervals]durations

// newCourse makes empty intervals. Their histograms have one significant digit, which is
// wrong by at most 1/16 and takes 3 KB instead of 20.
func newCourse() (c course) {
	for i := range c {
		c[i].histogram = hdrhistogram.New(1, longestTime.Microseconds(), 1)
	}
	return c
}

func (c *course) add(b *course) {
	for i := range c {
		c[i].add(&b[i])
	}
}

// interval is the length of an interval of the course of a row, in ns.
func (w *window) interval() int64 { return int64((w.length + courseIntervals - 1) / courseIntervals) }

// passed adds an interval to the course of a row.
func passed(r *result.Row, of *durations) {
	l := latency(of)
	r.Course = append(r.Course, l.Count)
	r.CourseP50MS = append(r.CourseP50MS, l.P50)
	r.CourseP99MS = append(r.CourseP99MS, l.P99)
}

// began is when the measured time began, as it is stored.
func (m *measurement) began() time.Time { return m.window.from.UTC().Truncate(time.Millisecond) }

// tell calls Progress when the load begins, and when an interval of the measured time is
// over, the last of which may be shorter. It returns when the measured time is over. The
// buyers go on working meanwhile.
func (m *measurement) tell() {
	sum := newCourse()
	all := newCourse()[0]
	soFar := result.Row{
		Point:         m.point,
		Trial:         max(m.Trial, 1),
		Began:         m.began(),
		CourseSeconds: time.Duration(m.window.interval()).Seconds(),
	}
	m.Progress(soFar)

	for i := range int64(courseIntervals) {
		begins, ends := i*m.window.interval(), (i+1)*m.window.interval()
		select {
		case <-time.After(time.Until(m.window.from) + time.Duration(ends)):
		case <-m.window.over:
		}

		// The measured time may have been cut short, within this interval or before it.
		ends = min(ends, m.window.until.Load())
		if ends <= begins {
			return
		}
		for _, w := range m.buyers {
			w.settle()
			sum[i].add(&w.tally.course[i])
		}

		all.add(&sum[i])
		passed(&soFar, &sum[i])
		soFar.Seconds = time.Duration(ends).Seconds()
		soFar.WaitMS = latency(&all)
		soFar.Bought = soFar.WaitMS.Count
		m.Progress(soFar)
	}
}

// settle waits, a moment at most, until the worker is not noting a purchase. Then all that
// ended before settle was called are noted, and this goroutine sees them: the worker says
// that it is noting before it reads the time at which a purchase ended, so that one which
// it notes later ended later.
func (w *worker) settle() {
	for w.noting.Load() {
		time.Sleep(endLooks)
	}
}

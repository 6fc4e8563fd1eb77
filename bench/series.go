package bench

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// series counts purchases by the time at which they began, in steps. Each step keeps the distribution of its waits, so
// that the 99th percentile of two steps that are merged is that of both together.
type series struct {
	step  time.Duration
	whole int // how many steps the row will have; 0: its end is not known, and steps are merged as it goes on
	steps []seriesStep
}

// seriesStep is what began in one step.
type seriesStep struct {
	purchases, retries int64
	longest            int64 // us
	waits              [stepBuckets]uint32
}

// newSeries is the series of a row of so long; 0: nobody knows how long it will be.
func newSeries(duration time.Duration) *series {
	s := &series{step: stepFor(duration)}
	if duration > 0 {
		s.whole = int((duration + s.step - 1) / s.step)
		s.steps = make([]seriesStep, 0, s.whole)
	}
	return s
}

// shortestStep and usualStep bound the steps of rows that are not longer than a minute.
const (
	shortestStep = 10 * time.Millisecond
	usualStep    = 100 * time.Millisecond
)

// stepFor is how long the steps of a row are: a hundredth of it, but at most 100 ms where that gives no more than
// result.MaxPoints; then rounded up to 1, 2 or 5 of a decimal unit.
func stepFor(duration time.Duration) time.Duration {
	wanted := max(min(duration/100, usualStep), (duration+result.MaxPoints-1)/result.MaxPoints)
	for unit := shortestStep; ; unit *= 10 {
		for _, factor := range []time.Duration{1, 2, 5} {
			if step := factor * unit; step >= wanted {
				return step
			}
		}
	}
}

// add counts an order that began so long after the start of the row. One that began as the row ended belongs to the last
// step.
func (s *series) add(began time.Duration, w wait, us, retries int64) {
	if w != purchaseWait && w != givenUpWait && w != noWait {
		return
	}
	at := s.at(began)
	at.retries += retries
	if w == purchaseWait {
		at.purchases++
		at.waits[stepBucket(us)]++
		at.longest = max(at.longest, us)
	}
}

// at is the step of a time.
func (s *series) at(began time.Duration) *seriesStep {
	i := int(began / s.step)
	if s.whole > 0 {
		i = min(i, s.whole-1)
	}
	for ; i >= result.MaxPoints; i = int(began / s.step) {
		s.halve()
	}
	for len(s.steps) <= i {
		s.steps = append(s.steps, seriesStep{})
	}
	return &s.steps[i]
}

// halve merges each two neighbours.
func (s *series) halve() {
	s.step *= 2
	half := (len(s.steps) + 1) / 2
	for i := range half {
		merged := s.steps[2*i]
		if 2*i+1 < len(s.steps) {
			merged.merge(&s.steps[2*i+1])
		}
		s.steps[i] = merged
	}
	s.steps = s.steps[:half]
}

func (s *seriesStep) merge(o *seriesStep) {
	s.purchases += o.purchases
	s.retries += o.retries
	s.longest = max(s.longest, o.longest)
	for i, n := range o.waits {
		s.waits[i] += n
	}
}

// result is the series of a row that took so long.
func (s *series) result(took time.Duration) *result.Series {
	if took <= 0 {
		return nil
	}
	n := int((took + s.step - 1) / s.step)
	if s.whole > 0 {
		n = min(n, s.whole) // a row ends a moment late
	}
	for n > result.MaxPoints { // nothing happened at the end
		s.halve()
		n = int((took + s.step - 1) / s.step)
	}
	for len(s.steps) > n { // began as the row ended
		s.steps[n-1].merge(&s.steps[len(s.steps)-1])
		s.steps = s.steps[:len(s.steps)-1]
	}
	r := &result.Series{
		StepSeconds: s.step.Seconds(), Purchases: make([]int64, n), Retries: make([]int64, n),
		P99MS: make([]float64, n), MaxMS: make([]float64, n),
	}
	for i := range s.steps {
		at := &s.steps[i]
		r.Purchases[i], r.Retries[i] = at.purchases, at.retries
		r.P99MS[i], r.MaxMS[i] = float64(at.p99())/1000, float64(at.longest)/1000
	}
	return r
}

// addCourse adds to a row how it went: what the warm-up was like, and what became of trade after it.
func (m *measurement) addCourse(r *result.Row) {
	warmup := m.from.Sub(m.started).Seconds()
	r.WarmupSeconds = &warmup
	if m.Warmup > 0 {
		settled := m.unsteady == ""
		r.Settled = &settled
	}
	addUnsteady(r, m.unsteady)
	if r.Series = m.collector.seriesOf(m.stop.at.Sub(m.from)); r.Series == nil {
		return
	}
	if m.open != nil { // its steps hold the orders that fell due in them, as many in each: what changes is the backlog
		return
	}
	addDrift(r)
}

// addUnsteady adds to a row that had a warm-up what was not steady at its end.
func addUnsteady(r *result.Row, what string) {
	if r.Settled != nil && !*r.Settled {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("trade was not steady after a warm-up of %.1f s: %s", *r.WarmupSeconds, what))
	}
}

// addDrift adds to a row with a series what became of trade.
func addDrift(r *result.Row) {
	var clear bool
	if r.Drift, clear = drift(r.Series, r.Seconds); clear {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"the row made %.2f times as many purchases in its last third as in its first: trade was not steady", *r.Drift))
	}
}

// addBlocked adds how often workers found that the collector had not kept up. They then did its work between two
// operations, which nothing measures but throughput.
func (m *measurement) addBlocked(r *result.Row) {
	var n int64
	for _, w := range m.All() {
		n += w.recorder.blocked
	}
	if n == 0 {
		return
	}
	if r.Client == nil {
		r.Client = &result.Client{}
	}
	r.Client.RecorderWaits = n
	r.Warnings = append(r.Warnings, fmt.Sprintf("workers had to wait %d times until their times were recorded: this process "+
		"did not keep up", n))
}

// driftWithin is how much the last third of a row may differ from the first before a reader has to know, and
// driftErrors how many standard errors it must be.
const (
	driftWithin = 0.10
	driftErrors = 3
	fewestSteps = 5 // in a third, or their spread tells nothing
)

// drift is the purchases of the last third of a series over those of the first; nil where that cannot be told. It is
// clear when it differs from 1 by more than a tenth, and by more than three times its standard error, as the spread of the
// steps in each third shows it.
func drift(s *result.Series, seconds float64) (ratio *float64, clear bool) {
	whole := min(int(seconds/s.StepSeconds*(1+1e-9)), len(s.Purchases)) // the last step may be shorter
	third := whole / 3
	if third < fewestSteps {
		return nil, false
	}
	first, spread1 := meanOf(s.Purchases[:third])
	last, spread3 := meanOf(s.Purchases[whole-third : whole])
	if first == 0 {
		return nil, false
	}
	of := last / first
	clear = math.Abs(of-1) > driftWithin && math.Abs(last-first) > driftErrors*math.Sqrt((spread1+spread3)/float64(third))
	return &of, clear
}

// meanOf is the mean and the variance of counts. The variance is at least that of events which come independently.
func meanOf(counts []int64) (mean, variance float64) {
	for _, n := range counts {
		mean += float64(n) / float64(len(counts))
	}
	for _, n := range counts {
		variance += (float64(n) - mean) * (float64(n) - mean) / float64(len(counts)-1)
	}
	return mean, max(variance, mean)
}

// p99 is the 99th percentile of the waits by nearest rank, in microseconds: up to 1/64 above it, as its bucket is wide.
func (s *seriesStep) p99() int64 {
	rank := (99*s.purchases + 99) / 100
	for i, n := range s.waits {
		if rank -= int64(n); rank <= 0 && n > 0 {
			return min(bucketTop(i), s.longest)
		}
	}
	return 0
}

// A step keeps its waits in buckets of 1 us below 128 us, and above that in 64 buckets for each power of two.
const (
	perOctave   = 64
	stepBuckets = 20*perOctave + perOctave // up to highestWait, which has 26 bits
)

// stepBucket is the bucket of a wait of so many microseconds.
func stepBucket(us int64) int {
	shift := max(0, bits.Len64(uint64(us))-bits.Len64(2*perOctave-1))
	return shift*perOctave + int(us>>shift)
}

// bucketTop is the longest wait of a bucket.
func bucketTop(i int) int64 {
	shift := max(0, i/perOctave-1)
	return int64(i-shift*perOctave+1)<<shift - 1
}

package bench

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/market"
)

const (
	patience     = 10 * time.Second       // how long an order of an open loop tries to buy something, from when it was due
	stockLooks   = 2_000                  // how often a second the sellers together look for missing listings
	longestPause = 100 * time.Millisecond // how long one of them waits at most
)

// A schedule says when the orders of an open loop are due: a time since the loop began. The gap between two is drawn
// from an exponential distribution (Poisson arrivals), as if each order came from a customer who knows nothing of the
// others. Rate and seed fix it, so that nothing that happens in a row delays an order. Each time follows from the last.
type schedule struct {
	rate  float64 // orders a second
	seed  uint64
	taken atomic.Int64 // when the order is due that was taken last, in ns
}

// take returns when the next order is due that nobody has taken. Any number of workers may call it at a time.
func (s *schedule) take() time.Duration {
	for {
		last := s.taken.Load()
		next := s.after(time.Duration(last))
		if s.taken.CompareAndSwap(last, int64(next)) {
			return next
		}
	}
}

// after returns when the order is due that follows the one due at the given time: later. It is a pure function.
func (s *schedule) after(due time.Duration) time.Duration {
	var draw rand.PCG
	draw.Seed(s.seed, uint64(due))
	even := float64(draw.Uint64()>>11) / (1 << 53) // at least 0, below 1
	gap := -math.Log(1-even) / s.rate * float64(time.Second)
	return due + time.Duration(gap) + 1
}

// untaken counts the orders that nobody has taken, due from from and before to. No worker may take one meanwhile.
func (s *schedule) untaken(from, to time.Duration) (n int64) {
	for due := s.after(time.Duration(s.taken.Load())); due < to; due = s.after(due) {
		if due >= from {
			n++
		}
	}
	return n
}

// An openLoop is what the workers have in common whose orders fall due at fixed times. A wait for a free buyer is part
// of an order's latency: to leave it out is what G. Tene calls coordinated omission ("How NOT to Measure Latency",
// 2013).
type openLoop struct {
	schedule     schedule
	slo          int64 // ns
	sellersPause time.Duration
	alarms       func() alarm.Alarm
}

func newOpenLoop(p result.Point, o Options) *openLoop {
	if p.Rate == 0 {
		return nil
	}
	sellersPause := min(longestPause, time.Duration(p.Mix.Sellers)*time.Second/stockLooks)
	slo := int64(cmp.Or(o.SLO, math.MaxInt64))
	return &openLoop{schedule{rate: p.Rate, seed: o.Seed}, slo, sellersPause, alarm.New}
}

// stock is how many listings of a market are up, as sellers and buyers of an open loop count them. One that is bought
// before its seller has counted it makes it one too low for that moment.
type stock struct {
	wanted   int64
	listings atomic.Int64
}

func (s *stock) enough() bool { return s.listings.Load() >= s.wanted }

type openBuyer struct {
	m      *measurement
	w      *worker
	alarm  alarm.Alarm
	offers []market.Order // listings that it has not tried yet
}

// serve takes order after order from the schedule and makes it when it is due, until the row stops.
func (m *measurement) serve(ctx context.Context, w *worker) {
	b := openBuyer{m, w, m.open.alarms(), nil}
	defer b.alarm.Close()
	for !m.window.stopped.Load() && b.next(ctx) {
		w.underway.Store(idle)
	}
	w.underway.Store(idle)
}

// next makes the next order of the schedule, and reports false if the row has stopped or the account is empty.
func (b *openBuyer) next(ctx context.Context) bool {
	b.w.underway.Store(0) // in the window, as it may be, until it is known when the order is due
	asked := b.m.window.from.Add(b.m.open.schedule.take() - b.m.Warmup)
	at := b.w.at(asked)
	b.w.underway.Store(at)
	if len(b.offers) == 0 && time.Until(asked) > 0 {
		b.glance(ctx) // while there is time
	}
	awake := b.await(asked)
	if b.m.window.holds(at) {
		b.w.tally.count[due]++
	}
	return awake && b.fill(ctx, asked)
}

// await sleeps until an order is due, and reports false if the row stops first.
func (b *openBuyer) await(asked time.Time) bool {
	for !b.m.window.stopped.Load() {
		left := time.Until(asked)
		if left <= 0 {
			return true
		}
		b.alarm.Sleep(left, b.m.window.done)
	}
	return false
}

// fill tries listings until the order that was due has bought one or is out of patience. It reports what next does.
func (b *openBuyer) fill(ctx context.Context, asked time.Time) bool {
	taken, until := time.Now(), asked.Add(patience)
	for !b.m.window.stopped.Load() {
		if time.Now().After(until) {
			b.ended(asked, givenUp, givenUpInTime)
			return true
		}
		if len(b.offers) == 0 && !b.glance(ctx) {
			time.Sleep(pause)
			continue
		}
		o := b.offers[0]
		b.offers = b.offers[1:]
		err := b.w.order(ctx, o, asked, time.Now())
		b.m.check(ctx, err)
		switch {
		case err == nil:
			b.w.market.stock.listings.Add(-1)
			if took, counted := b.ended(asked, made, madeInTime); counted {
				b.w.tally.took[serviceTime].note(time.Since(taken))
				if took > b.m.open.slo {
					b.w.tally.count[late]++
				}
			}
			return true
		case errors.Is(err, market.ErrInsufficientFunds) && b.m.broke(ctx, b.w):
			b.ended(asked, givenUp, givenUpInTime)
			return false
		}
	}
	return false
}

// ended counts an order that has ended now if it began in the window, and returns how long it took, in ns.
func (b *openBuyer) ended(asked time.Time, as, inTime counter) (took int64, counted bool) {
	s := b.w.since(asked)
	if !b.m.window.holds(s.start) {
		return 0, false
	}
	b.w.tally.count[as]++
	if b.m.window.holds(s.end) {
		b.w.tally.count[inTime]++
	}
	return s.end - s.start, true
}

func (b *openBuyer) glance(ctx context.Context) bool {
	var err error
	b.offers, err = b.w.browse(ctx)
	b.m.check(ctx, err)
	return len(b.offers) > 0
}

func (o *openLoop) report(m *measurement, t *tally) *result.Open {
	if o == nil {
		return nil
	}
	n := &t.count
	all := n[due] + o.schedule.untaken(m.Warmup, m.Warmup+time.Duration(m.window.until.Load()))
	return &result.Open{
		Due: all, Done: n[madeInTime], Backlog: all - n[madeInTime] - n[givenUpInTime], GivenUp: n[givenUp],
		Late:     n[late] + all - n[made], // what bought nothing was given up, or not done when the row ended
		LeftOver: n[leftOver],
	}
}

package load

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
)

const (
	// How long an order of an open loop tries to buy something, from when it was due.
	patience = 10 * time.Second
	// How often a second the sellers together look for missing listings.
	stockLooks   = 2_000
	longestPause = 100 * time.Millisecond // how long one of them waits at most
)

// A schedule says when orders of an open loop are due, from its start. Gaps are
// exponential (Poisson arrivals), as if each order came from a customer of its own, or all
// the same. Rate and seed fix it: nothing that happens in a row delays an order.
type schedule struct {
	rate     float64 // orders a second
	seed     uint64
	constant bool         // all gaps are the same, whatever the seed
	taken    atomic.Int64 // when the order taken last is due, in ns
}

// take returns when the next order that nobody has taken is due. Any number of workers
// may call it at the same time.
func (s *schedule) take() time.Duration {
	for {
		last := s.taken.Load()
		next := s.after(time.Duration(last))
		if s.taken.CompareAndSwap(last, int64(next)) {
			return next
		}
	}
}

// after returns when the order after the one due at the given time is due: always
// later. It is a pure function.
func (s *schedule) after(due time.Duration) time.Duration {
	if s.constant {
		// Counted from the start: gaps cut to whole nanoseconds would add up to another rate.
		number := math.Round(due.Seconds()*s.rate) + 1
		return max(due+1, time.Duration(number/s.rate*float64(time.Second)))
	}

	var draw rand.PCG
	draw.Seed(s.seed, uint64(due))
	even := float64(draw.Uint64()>>11) / (1 << 53) // at least 0, below 1
	gap := -math.Log(1-even) / s.rate * float64(time.Second)
	return due + time.Duration(gap) + 1
}

// untaken counts the orders due in [from, to) that nobody has taken when it is called.
// Workers may go on taking some.
func (s *schedule) untaken(from, to time.Duration) (n int64) {
	for due := s.after(time.Duration(s.taken.Load())); due < to; due = s.after(due) {
		if due >= from {
			n++
		}
	}
	return n
}

// An openLoop is what the workers of an open loop share. An order's latency includes its
// wait for a free buyer. Leaving that out is what G. Tene calls coordinated omission
// ("How NOT to Measure Latency", 2013).
type openLoop struct {
	schedule     schedule
	slo          int64 // ns
	sellersPause time.Duration
	alarms       func() redisconn.Alarm
}

func newOpenLoop(p result.Point, o Options) *openLoop {
	if p.Rate == 0 {
		return nil
	}
	return &openLoop{
		schedule:     schedule{rate: p.Rate, seed: o.Seed, constant: p.Arrivals == result.ConstantArrivals},
		slo:          int64(cmp.Or(o.SLO, math.MaxInt64)),
		sellersPause: min(longestPause, time.Duration(p.Mix.Sellers)*time.Second/stockLooks),
		alarms:       redisconn.NewAlarm,
	}
}

type openBuyer struct {
	m      *measurement
	w      *worker
	alarm  redisconn.Alarm
	offers []market.Order // listings that it has not tried yet
}

func (m *measurement) serve(ctx context.Context, w *worker) {
	b := openBuyer{m: m, w: w, alarm: m.open.alarms()}
	defer b.alarm.Close()
	for !m.window.stopped.Load() && b.next(ctx) {
		w.underway.Store(idle)
	}
	w.underway.Store(idle)
}

// next makes the next order of the schedule. It reports false if the row has
// stopped or the account is empty.
func (b *openBuyer) next(ctx context.Context) bool {
	// It counts as under way from the start of the window until it is known when the order is due.
	b.w.underway.Store(0)
	asked := b.m.window.from.Add(b.m.open.schedule.take() - b.m.Warmup)
	at := b.w.at(asked)
	b.w.underway.Store(at)
	if len(b.offers) == 0 && time.Until(asked) > 0 {
		b.glance(ctx) // while there is time
	}

	awake := b.await(asked)
	// Not before the wait, in which the row may be cut short: then the order is not due in it.
	if b.m.window.holds(at) {
		b.w.tally.count[due]++
	}
	return awake && b.fill(ctx, asked)
}

// await waits until an order is due; false: the row has stopped.
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

// fill tries listings until the order has bought one or is out of patience. As with next,
// false means that the buyer makes no more orders.
func (b *openBuyer) fill(ctx context.Context, asked time.Time) bool {
	taken := time.Now()
	until := asked.Add(patience)
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

		// An offer that somebody else has bought, or that now has another price, is no end of the
		// order: it takes the next one.
		switch {
		case err == nil:
			b.w.market.missing.Add(1)
			if took, counted := b.ended(asked, fulfilled, fulfilledInTime); counted {
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

// ended counts an order that ends now, if it fell due in the window, and
// returns how long it took, in ns.
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

// glance looks for listings to try, and reports whether there are any. What it finds lies in
// the worker's own slice, which the next glance overwrites: no offer may be left then.
func (b *openBuyer) glance(ctx context.Context) bool {
	var err error
	b.offers, err = b.w.browse(ctx)
	b.m.check(ctx, err)
	return len(b.offers) > 0
}

// report is what the row's orders came to; nil in a closed loop. No worker takes orders any
// more: those that nobody took count as due, and as late.
func (o *openLoop) report(m *measurement, t *tally) *result.OpenLoop {
	if o == nil {
		return nil
	}

	// A buyer counts the orders that it took, the schedule has the others.
	n := &t.count
	all := n[due] + o.schedule.untaken(m.Warmup, m.Warmup+time.Duration(m.window.until.Load()))
	return &result.OpenLoop{
		Due:     all,
		Done:    n[fulfilledInTime],
		Backlog: all - n[fulfilledInTime] - n[givenUpInTime],
		GivenUp: n[givenUp],
		// Those not fulfilled were given up, or not done when the row ended.
		Late:     n[late] + all - n[fulfilled],
		LeftOver: n[leftOver],
	}
}

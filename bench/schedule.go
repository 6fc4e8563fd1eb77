package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Arrivals is how the orders of an open loop are spread over time.
type Arrivals string

// The arrivals.
const (
	// Poisson draws the gap between two orders from an exponential distribution, as if each came from a customer who
	// knows nothing of the others. Some come close together, as in life.
	Poisson Arrivals = "poisson"
	// Constant leaves the same gap between all orders.
	Constant Arrivals = "constant"
)

// MaxRate is the highest rate in purchases a second at which a row can be scheduled. An order is due at a whole
// nanosecond, and no two are due at the same: at this rate that makes the rate wrong by less than a thousandth. Taking
// an order costs a worker about 0.1 us: at ten times the rate the schedule itself would be what is measured.
const MaxRate = 1_000_000

// A schedule says when the orders of an open loop are due: a time since the loop began. It is fixed by its rate, its
// arrivals and its seed before the first order is made, so that nothing that happens in a row delays an order; and it
// stores none of the times: each follows from the one before it.
type schedule struct {
	arrivals Arrivals
	rate     float64 // orders a second
	seed     uint64
	taken    atomic.Int64 // when the order is due that was taken last, in ns
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

// after returns when the order is due that follows the one due at the given time. It is a pure function, and returns
// what is later.
func (s *schedule) after(due time.Duration) time.Duration {
	if s.arrivals == Constant { // counted from the beginning, so that rounding does not add up
		n := math.Round(due.Seconds() * s.rate)
		return time.Duration((n + 1) / s.rate * float64(time.Second))
	}
	var draw rand.PCG
	draw.Seed(s.seed, uint64(due))
	even := float64(draw.Uint64()>>11) / (1 << 53) // at least 0, below 1
	gap := -math.Log(1-even) / s.rate * float64(time.Second)
	return due + time.Duration(gap) + 1
}

// untaken counts the orders that nobody has taken, of those due from from to to. No worker may take one meanwhile.
func (s *schedule) untaken(from, to time.Duration) (n int64) {
	for due := s.after(time.Duration(s.taken.Load())); due <= to; due = s.after(due) {
		if due >= from {
			n++
		}
	}
	return n
}

// checkRate returns ErrConfig, wrapped, for a rate or arrivals that cannot be scheduled.
func checkRate(rate float64, arrivals Arrivals) error {
	switch {
	case !(rate > 0 && rate <= MaxRate):
		return fmt.Errorf("%w: a rate of %v purchases/s: want more than 0 and at most %d, beyond which orders cannot be "+
			"told apart in time", ErrConfig, rate, MaxRate)
	case arrivals != Poisson && arrivals != Constant:
		return fmt.Errorf("%w: arrivals %q: want %s or %s", ErrConfig, arrivals, Poisson, Constant)
	}
	return nil
}

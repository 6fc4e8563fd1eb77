package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

const hour = time.Hour

// showing is a clock that stands still.
func showing(t time.Time) func() time.Time {
	return func() time.Time { return t }
}

// takers are workers of a getset whose clocks stand still.
type takers struct {
	*bench
	noon time.Time
}

func eachTakers(t *testing.T, f func(t *testing.T, b takers)) {
	onServer(t, func(t *testing.T, b *bench) {
		f(t, takers{b, time.Now()})
	})
}

// at opens a worker whose clock is off.
func (b takers) at(offset time.Duration, steps step.Observer) *worker {
	b.Helper()
	return b.worker("getset", setting{now: showing(b.noon.Add(offset)), steps: steps})
}

// inTime releases only while its time is not past.
var inTime = param.Values{"release": "in-time"}

func TestGetSetTakesOverALockWhoseTimeIsPast(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		dead := b.try(b.at(-hour, nil))
		gate1 := step.Hold(step.Looked)
		try1 := b.trying(b.at(0, gate1.Observe), gate1)
		gate2 := step.Hold(step.Looked)
		try2 := b.trying(b.at(0, gate2.Observe), gate2)

		gate1.Open()
		first := <-try1
		wants(t, "the first waiter's Try", first.err, nil)

		gate2.Open()
		wants(t, "the second waiter's Try", (<-try2).err, lock.ErrHeld)

		wants(t, "release", first.lease.Release(t.Context()), nil)
		b.free()
		wants(t, "release of a lock that is gone", dead.Release(t.Context()), lock.ErrLost)
	})
}

// With takeover=del the second waiter deletes the first one's lock.
func TestGetSetTakeoverByDelLetsTwoIn(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		b.try(b.at(-hour, nil))
		waiter := func() (*step.Gate, <-chan acquisition) {
			gate := step.Hold(step.Looked)
			params := param.Values{"takeover": "del"}
			w := b.worker("getset", setting{
				now: showing(b.noon), steps: gate.Observe, params: params,
			})
			return gate, b.trying(w, gate)
		}
		gate1, try1 := waiter()
		gate2, try2 := waiter()

		gate1.Open()
		wants(t, "the first waiter's Try", (<-try1).err, nil)

		gate2.Open()
		wants(t, "the second waiter's Try", (<-try2).err, nil)
	})
}

// As published, whoever was holder once releases. Only with release=in-time a late
// holder looks at its clock first.
func TestGetSetReleaseAfterItsTime(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		for _, c := range []struct {
			params     param.Values
			late, next error
		}{{nil, nil, lock.ErrLost}, {inTime, lock.ErrLost, nil}} {
			now := b.noon
			clock := func() time.Time { return now }

			late := b.try(b.worker("getset", setting{now: clock, params: c.params}))
			now = now.Add(hour)
			next := b.try(b.at(hour, nil))

			wants(t, "the late release", late.Release(t.Context()), c.late)
			wants(t, "the next one's release", next.Release(t.Context()), c.next)
		}
	})
}

func TestGetSetClockAheadStealsALiveLock(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		holder := b.try(b.at(0, nil))
		_, err := b.at(0, nil).Try(t.Context(), name)
		wants(t, "Try with a right clock", err, lock.ErrHeld)
		other := b.try(b.at(hour, nil))
		wants(t, "the holder's release", holder.Release(t.Context()), nil)
		b.free() // the other's lock was deleted
		wants(t, "the other's release", other.Release(t.Context()), lock.ErrLost)
	})
}

func TestGetSetLoserReplacesTheWinnersTime(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		b.try(b.at(-2*hour, nil)) // and dies
		loses := step.Hold(step.Looked)
		late := b.trying(b.at(-hour, loses.Observe), loses) // its clock is an hour behind
		winner := b.try(b.at(0, nil))
		loses.Open()
		wants(t, "the loser's Try", (<-late).err, lock.ErrHeld)

		third := b.try(b.at(0, nil)) // finds the loser's time, which is past
		wants(t, "the winner's release", winner.Release(t.Context()), nil)
		wants(t, "the third one's release", third.Release(t.Context()), lock.ErrLost)
	})
}

func TestGetSetLateWaiterLocksAFreeLockForNobody(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		holder := b.try(b.at(-hour, nil)) // to its own clock it is in time
		gate := step.Hold(step.Looked)
		waiter := b.trying(b.at(0, gate.Observe), gate)
		wants(t, "release", holder.Release(t.Context()), nil)
		gate.Open()
		wants(t, "the waiter's Try", (<-waiter).err, lock.ErrHeld)
		_, err := b.at(0, nil).Try(t.Context(), name)
		wants(t, "Try of a lock that nobody holds", err, lock.ErrHeld)
	})
}

func TestGetSetPausedReleaseDeletesTheNextOnesLock(t *testing.T) {
	eachTakers(t, func(t *testing.T, b takers) {
		gate := step.Hold(step.Looked)
		holder := b.worker("getset", setting{now: showing(b.noon), steps: gate.Observe, params: inTime})
		released := b.releasing(b.try(holder), gate)
		next := b.try(b.at(hour, nil)) // an hour later
		gate.Open()
		wants(t, "the paused release", <-released, nil)
		b.free()
		wants(t, "the next one's release", next.Release(t.Context()), lock.ErrLost)
	})
}

// A waiter takes the lock over when its end has passed, and not at that millisecond.
func TestGetSetIsHeldAtItsEnd(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		ttl := param.Values{"ttl": "10s", "timeout": atOnce}
		b.try(b.worker("getset", setting{params: ttl, now: at(0)})) // and crashes
		_, err := b.worker("getset", setting{params: ttl, now: at(10_000)}).Try(t.Context(), name)
		wants(t, "Try at the end of the lock", err, lock.ErrHeld)
		_, err = b.worker("getset", setting{params: ttl, now: at(10_001)}).Try(t.Context(), name)
		wants(t, "Try after it", err, nil)
	})
}

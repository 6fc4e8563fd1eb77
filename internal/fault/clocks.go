package fault

import (
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

const clockError = 30 * time.Second

// clocks are scenarios in which one client's clock is wrong.
var clocks = []Scenario{{
	Name:    "clock-ahead",
	Title:   "one client's clock is 30 s ahead",
	Promise: "clock-independent",
	Applies: needsLock,
	run: func(s *setup) observed {
		return skewClock(s, clockError)
	},
}, {
	Name:    "clock-behind",
	Title:   "one client's clock is 30 s behind",
	Promise: "clock-independent",
	Applies: needsLock,
	run: func(s *setup) observed {
		return skewClock(s, -clockError)
	},
}, {
	Name: "clock-set-back",
	Title: "a client's clock is set back by 30 s while it takes its lock; " +
		"it works for three TTLs, and writes",
	Promise: "clock-independent",
	Applies: needsLock,
	run: func(s *setup) observed {
		return setClockBack(s, clockError)
	},
}}

// skewClock has the client with the wrong clock try the lock that another holds,
// and the other way round.
func skewClock(s *setup, by time.Duration) observed {
	right := s.client("A")
	s.config.Clock = by
	wrong := s.client("B")
	enters := wrong.entersBeside(right, s.item(0))
	entered := right.entersBeside(wrong, s.item(1))

	s.noteFault(wrong.readsClock, "")
	if !wrong.readsClock { // whatever happened is not the clock's doing
		notApplicable("it does not read the clock that is wrong")
	}

	how := "it enters beside others, and others beside it"
	switch {
	case !entered:
		how = "it takes a lock that others hold"
	case !enters:
		how = "others take the lock that it holds"
	}

	return s.concludeBeside(enters || entered, verify.NotAsked, how, "nobody gets in beside a holder")
}

// entersBeside reports whether a client gets in beside a holder that is about to write.
func (c *client) entersBeside(holder *client, item market.ItemID) bool {
	start := holder.buyUntil(item, step.BeforeWrite)
	return c.comesBeside(item, start, holder)
}

// setClockBack sets a client's clock back while the client takes its lock: it then believes
// that this took no time, and works past its lease.
func setClockBack(s *setup, by time.Duration) observed {
	b := s.client("B") // whose clock is right: a client has the config of when it was made
	s.config.Clock = -by
	s.config.Right = 1 // reading is right, before it asks for the lock; later ones are not
	a := s.client("A")

	a.buyUntil(s.item(0), step.Read)
	if !a.readsClock { // whatever happens then is not the clock's doing
		notApplicable("it does not read the clock once more when that has been set back, " +
			"to know how long its lock is valid")
	}

	s.noteFault(true, "")
	b.buy(s.item(0))
	in := b.getsIn(3 * s.ttl)
	first := a.finish()

	if !in {
		return s.conclude(verify.NotAsked, "nobody else gets in before the holder is done")
	}
	return s.concludeTakeover(first, b, verify.NotAsked)
}

package fault

import (
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// clocks are scenarios in which one client's clock is wrong.
func clocks() []Scenario {
	const clockError = 30 * time.Second
	return []Scenario{{
		Name: "clock-ahead", Title: "one client's clock is 30 s ahead",
		Promise: "clock-independent", Applies: needsLock,
		run: func(s *setup) observed { return skewed(s, clockError) },
	}, {
		Name: "clock-behind", Title: "one client's clock is 30 s behind",
		Promise: "clock-independent", Applies: needsLock,
		run: func(s *setup) observed { return skewed(s, -clockError) },
	}, {
		Name:    "clock-set-back",
		Title:   "a client's clock is set back by 30 s while it takes its lock; it works for three TTLs, and writes",
		Promise: "clock-independent", Applies: needsLock,
		run: func(s *setup) observed { return setBack(s, clockError) },
	}}
}

// skewed lets the client with the wrong clock try the lock that another holds, and the other way round.
func skewed(s *setup, by time.Duration) observed {
	right := s.client("A")
	s.config.Clock = by
	wrong := s.client("B")
	enters := entersBeside(s, right, wrong, 0)
	entered := entersBeside(s, wrong, right, 1)
	s.strikes(wrong.readsClock, "")
	if !wrong.readsClock { // whatever happened is not the clock's doing
		cannot("it does not read the clock that is wrong")
	}
	how := "it enters beside others, and others beside it"
	switch {
	case !entered:
		how = "it takes a lock that others hold"
	case !enters:
		how = "others take the lock that it holds"
	}
	return s.sawBeside(enters || entered, verify.NotAsked, how, "nobody gets in beside a holder")
}

// entersBeside reports whether a client gets in beside the holder.
func entersBeside(s *setup, holder, other *client, item int) bool {
	start := time.Now()
	holder.buyUntil(s.item(item), step.BeforeWrite)
	return other.comesBeside(s.item(item), start, holder)
}

// setBack sets the clock of a client back when it has read it once to take its lock, so that it misjudges how long that
// took. The client then works on past the end of its lease, and another comes.
func setBack(s *setup, by time.Duration) observed {
	b := s.client("B")
	s.config.Clock, s.config.Right = -by, 1
	a := s.client("A")
	a.buyUntil(s.item(0), step.Read)
	if !a.readsClock { // whatever happens then is not the clock's doing
		cannot("it does not read the clock once more when that has been set back, to know how long its lock is valid")
	}
	s.strikes(true, "")
	b.buy(s.item(0))
	in := b.getsIn(3 * s.ttl)
	first := a.finish()
	if !in {
		return s.saw(verify.NotAsked, "nobody else gets in before the holder is done")
	}
	return s.tookOver(first, b, verify.NotAsked)
}

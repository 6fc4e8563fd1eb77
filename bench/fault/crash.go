package fault

import (
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market/step"
)

// crashes are scenarios in which the holder of a lock dies.
func crashes() []Scenario {
	return []Scenario{{
		Name: "crash-half-taken", Title: "the holder dies between SETNX and EXPIRE",
		Promise: "survives a crash", Applies: needsLock, run: crashHalfTaken,
	}, {
		Name: "crash-holding", Title: "the holder dies in the critical section",
		Promise: "survives a crash", run: crashHolding,
	}, {
		Name: "crash-waiting", Title: "two wait for the lock, and the first in line dies; then the holder releases",
		Promise: "survives a crash", Applies: needsLock, run: crashWaiting,
	}}
}

func crashHalfTaken(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	start := time.Now()
	a.buy(s.item(0), at(step.Half), at(step.BeforeWrite))
	if a.held(clientTimeout) != step.Half {
		s.cannot("it does not take its lock with SETNX and EXPIRE")
	}
	a.kill()
	b.buy(s.item(0))
	kept := s.keptOut(b, start)
	why := entry(kept)
	if kept == result.LeaseRanOut {
		why = "a waiter who finds no expiry sets one, and others get in when it has run out"
	}
	return s.saw(kept, why)
}

func crashHolding(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	start := time.Now()
	a.buyUntil(s.item(0), step.BeforeWrite)
	a.kill()
	b.buy(s.item(0))
	kept := s.keptOut(b, start)
	return s.saw(kept, entry(kept))
}

func crashWaiting(s *setup) observed {
	holder, first, second := s.client("A"), s.client("B"), s.client("C")
	item := s.unlisted().Item
	holder.list(s.unlisted(), at(step.BeforeRelease))
	holder.reaches(step.BeforeRelease)
	beside := first.buyBeside(item)
	beside = second.buyBeside(item) || beside
	first.kill()
	holder.finish()
	second.op.began = time.Now() // until now the holder was at work
	kept := s.keptOutBehind(second)
	why := "the next in line gets in at once"
	switch kept {
	case result.NeverIn:
		why = "the next in line waits for the dead one, and nothing takes that one's place away"
	case result.PassedOver:
		why = "the next in line waits until the dead one has lost its place"
	}
	return s.sawBeside(beside, kept, "a waiter gets in beside the holder", why)
}

// keptOutBehind says how long a client waits for a lock that nobody holds, behind a waiter who has died.
func (s *setup) keptOutBehind(c *client) result.KeptOut {
	in := c.getsIn(s.forGood())
	waited := time.Since(c.op.began)
	switch {
	case !in:
		return result.NeverIn
	case waited > s.ttl*7/20:
		return result.PassedOver
	case waited > s.ttl/4: // nobody is passed over so soon
		s.fail(errLate)
	}
	return result.AtOnce
}

// entry says how the next one gets in after a holder has died.
func entry(kept result.KeptOut) string {
	switch kept {
	case result.NeverIn:
		return "nobody gets in: nothing gives the dead holder's lock back"
	case result.LeaseRanOut:
		return "others get in when the dead holder's lease has run out"
	case result.NoLease:
		return "it holds no lock that could be left behind"
	}
	return "others get in at once"
}

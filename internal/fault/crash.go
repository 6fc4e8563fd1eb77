package fault

import (
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// crashes are scenarios in which the holder of a lock dies.
var crashes = []Scenario{{
	Name:    "crash-half-taken",
	Title:   "the holder dies between SETNX and EXPIRE",
	Promise: "survives a crash",
	Applies: needsLock,
	run:     crashHalfTaken,
}, {
	Name:    "crash-holding",
	Title:   "the holder dies in the critical section",
	Promise: "survives a crash",
	run:     crashHolding,
}, {
	Name:    "crash-waiting",
	Title:   "two wait for the lock, and the first in line dies; then the holder releases",
	Promise: "survives a crash",
	Applies: needsLock,
	run:     crashWaiting,
}, {
	Name: "lottery",
	Title: "instances try once each for the lock of the day's draw, " +
		"the winner dies in the draw, and one comes late",
	Applies: lockThat(Scheme.asksApart,
		"it takes its lock and reads in one request, and does not just try"),
	run: lottery,
}}

// asksApart reports whether taking and releasing the lock are requests of their own.
func (s Scheme) asksApart() bool { return !s.FusesLock() }

func crashHalfTaken(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	start := time.Now()
	a.takeHalf(s.item(0))
	a.kill()
	kept := b.keptFrom(s.item(0), start)
	why := entry(kept)
	if kept == verify.LeaseRanOut {
		why = "the dead holder had set no expiry, and others get in all the same, after a lease"
	}
	return s.conclude(kept, why)
}

// takeHalf lets a client take the first of the two commands that take an item's lock.
func (c *client) takeHalf(item market.ItemID) {
	c.buy(item, at(step.Half), at(step.BeforeWrite))
	switch c.held(clientTimeout) {
	case step.Half:
	case step.BeforeWrite:
		notApplicable("it tells of no step between two commands that take its lock")
	default:
		fail(errUnclear)
	}
}

// crashHolding kills a buyer before it writes, and if several commands write a purchase,
// one buyer before each of them.
func crashHolding(s *setup) observed {
	b := s.client("B")
	proxy := s.marketProxy()
	writes := s.separateWrites(s.client("A"), proxy)

	kept := verify.NotAsked
	for nth := 1; nth <= writes; nth++ {
		a := s.client("A")
		start := a.buyUntil(s.item(nth), step.BeforeWrite)
		if nth > 1 {
			// Never opened: only the commands before it are executed.
			write := proxy.Hold(wire.Match{Nth: nth})
			a.free()
			s.await(write.Reached())
		}
		a.kill()
		if kept != verify.NeverIn { // or it would be so again; b's order is still under way
			kept = longer(kept, b.keptFrom(s.item(nth), start))
		}
	}

	return s.conclude(kept, entry(kept))
}

// crashWaiting kills the first of two waiters, and measures how long the second waits after
// the release, when nobody holds the lock. PassedOver has to be seen twice: see observe.
func crashWaiting(s *setup) observed {
	holder, first, second := s.client("A"), s.client("B"), s.client("C")
	item := holder.listUntilRelease(0).Item

	// The second comes whatever the first has found: what follows waits for its order.
	beside := first.buyBeside(item)
	beside = second.buyBeside(item) || beside
	if beside {
		s.checkInTime(holder.op.began)
	}

	first.kill()
	holder.finish()
	second.op.began = time.Now() // until now the holder was at work
	kept, why := verify.AtOnce, "the next in line gets in at once"

	in := second.getsIn(s.forGood())
	waited := time.Since(second.op.began)
	switch {
	case !in:
		kept = s.classifyWait(second, second.op.began, in)
		why = "nobody gets in any more, though nobody holds the lock"
	case waited > s.ttl*7/20:
		s.leases = waited.Seconds() / s.ttl.Seconds()
		kept, why = verify.PassedOver, "the next in line waits, though nobody holds the lock"
	case waited > s.ttl/4: // nobody is passed over so soon
		fail(errLate)
	}
	return s.concludeBeside(beside, kept, "a waiter gets in beside the holder", why)
}

// lottery is a draw (a purchase) a day by any instance of a service. Its winner dies
// before it has written, then after.
func lottery(s *setup) observed {
	if s.scheme.Strategy().Name == locksUnder { // which has a lock for each prize
		s.config.Scheme = strings.Replace(s.config.Scheme, locksUnder, "coarse", 1)
	}
	s.config.Once = true

	kept, draws := s.draw(0, step.BeforeWrite)
	if kept == verify.NeverIn { // as it would be on the next day
		return s.conclude(kept, "the winner died before it had drawn, and nobody draws any more")
	}

	again, twice := s.draw(1, step.Written)
	o := s.conclude(longer(kept, again), "there is one draw a day")
	switch {
	case o.Harm != verify.NoHarm:
	case draws > 1:
		o.Harm, o.Why = verify.ChargedTwice, "an instance draws beside the winner"
	case twice > 1:
		o.Harm = verify.ChargedTwice
		o.Why = "the winner had drawn when it died, and one that comes after a lease draws again"
	}
	return o
}

// draw is one day: how long is an instance that comes when the winner is dead kept out,
// and how many draws are there? One is right: on the first day the winner dies before it
// writes, and another draws; on the second it has drawn.
func (s *setup) draw(day int, dies step.Name) (kept verify.KeptOut, draws int) {
	winner, loser, late := s.client("A"), s.client("B"), s.client("C")
	loser.account, late.account = winner.account, winner.account

	// One for each, so that nobody is refused because its prize is sold.
	prizes := []market.ItemID{s.item(3 * day), s.item(3*day + 1), s.item(3*day + 2)}

	start := winner.buyUntil(prizes[0], dies)
	loser.buyToEnd(prizes[1]) // it does not wait
	winner.kill()
	kept = late.keptFrom(prizes[2], start)

	after := s.snapshot()
	for _, prize := range prizes {
		if ownerOf(after, prize) == winner.account {
			draws++
		}
	}
	return kept, draws
}

func entry(kept verify.KeptOut) string {
	switch kept {
	case verify.NeverIn:
		return "nobody gets in: an order gives up, and the next one is kept out too"
	case verify.LeaseRanOut:
		return "others get in after a lease"
	case verify.NoLease:
		return "nobody waits"
	}
	return "others get in at once"
}

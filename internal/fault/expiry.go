package fault

import (
	"slices"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// expiries are scenarios in which a lease ends before its holder is done.
var expiries = []Scenario{{
	Name:  "pause",
	Title: "the holder pauses past its TTL, another takes over, the holder wakes and writes",
	Needs: "Unix signals",
	run: func(s *setup) observed {
		return pauseHolder(s, s.client("A"), s.client("B"))
	},
}, {
	Name: "pause-before-read",
	Title: "the holder pauses past its TTL before it reads; " +
		"it wakes while another has read and not yet written",
	Promise: "notices loss",
	Needs:   "Unix signals",
	Applies: needsLock,
	run: func(s *setup) observed {
		return overtake(s, func(c *client, item market.ItemID) {
			c.buyUntil(item, step.Acquired)
		})
	},
}, {
	Name: "pause-half-taken",
	Title: "the holder pauses between SETNX and EXPIRE " +
		"for longer than the TTL that a waiter sets for it; then it wakes",
	Needs:   "Unix signals",
	Applies: needsLock,
	run: func(s *setup) observed {
		return overtake(s, (*client).takeHalf)
	},
}, {
	Name: "pause-release",
	Title: "the holder pauses past its TTL, another takes over, " +
		"the holder wakes and releases: whose lock goes?",
	Promise: "owner-only release",
	Needs:   "Unix signals",
	Applies: lockThat(Scheme.asksApart, "the transaction that writes releases its lock"),
	run: func(s *setup) observed {
		return releaseLate(s, at(step.BeforeRelease), s.client("A"), s.client("B"), s.client("C"))
	},
}, {
	Name:    "pause-in-release",
	Title:   "the same, but the holder pauses inside its release, after it looked whose the lock is",
	Promise: "owner-only release",
	Needs:   "Unix signals",
	Applies: needsLock,
	run: func(s *setup) observed {
		where := step.Breakpoint{At: step.Looked, After: step.BeforeRelease}
		return releaseLate(s, where, s.client("A"), s.client("B"), s.client("C"))
	},
}, {
	Name:  "stuck-goroutine",
	Title: "the holder's work is stuck while its process, and its watchdog, run on; then it writes",
	run: func(s *setup) observed {
		watched := s.forGood() + 3*s.ttl // a lock that counts its renewals may go on for a few TTLs more
		stuck := func() { s.noteFault(true, "") }
		return takeOver(s, s.client("A"), s.client("B"), watched, stuck, func() {})
	},
}, {
	Name:  "slow-work",
	Title: "the holder is alive and works for three TTLs; then it checks its lease and writes",
	run:   slowWork,
}, {
	Name: "expired-race",
	Title: "several waiters race for a lock whose holder died " +
		"(or, if it never expires, has released it)",
	Promise: "exclusive",
	Applies: needsLock,
	run:     raceForIt,
}}

// pauseHolder is takeOver where the holder's process pauses.
func pauseHolder(s *setup, holder, other *client) observed {
	return takeOver(s, holder, other, s.forGood(), holder.pause, holder.resume)
}

// takeOver suspends a buyer just before it writes, until another that wants the item
// has got in, or for some time.
func takeOver(
	s *setup, holder, other *client, watched time.Duration, suspend, resume func()) observed {

	start := holder.buyUntil(s.item(0), step.BeforeWrite)
	suspend()
	other.buy(s.item(0))
	in := other.getsIn(watched)
	kept := s.classifyWait(other, start, in) // measures up to now: before the holder goes on
	resume()
	return s.concludeTakeover(holder.finish(), other, kept)
}

// concludeTakeover says what came of two buyers: the first did not run or was cut off, and
// kept is how long the second waited. Both operations have ended, but for the second if kept
// is NeverIn: whether it gets in now that the first is done is still to be seen.
func (s *setup) concludeTakeover(first OpResult, second *client, kept verify.KeptOut) observed {
	if kept == verify.NeverIn {
		if second.getsIn(s.forGood()) {
			second.finish()
			return s.conclude(verify.HolderBack, "nobody else gets in before the holder is done")
		}
		return s.conclude(kept, "nobody else gets in, even when the holder is done")
	}

	switch o := second.op.outcome; {
	case first.Reason == "stale":
		return s.conclude(kept, "another took over; the market refused the late write as stale")
	case o.Applied() && first.Unknown():
		return s.conclude(kept, "another took over, and the write that arrives late changes nothing")
	case o.Applied() && !first.Applied():
		return s.conclude(kept, "another took over, and the late write was refused ("+first.Reason+")")
	default: // if both were applied, conclude finds the harm and gives that as the reason
		return s.conclude(kept, "the second buyer was refused ("+o.Reason+")")
	}
}

// slowWork holds a buyer between its read and the last check of its lease, as long as its
// work takes or until another has bought the item. A client that waits meanwhile is not
// kept out by anything that failed.
func slowWork(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	times := 1
	if _, renews := s.scheme.Value("renewals"); renews {
		times = 4 // it may be renewed just when it expires, which is sometimes in time
	}

	var kept verify.KeptOut
	for nth := range times {
		a.buyUntil(s.item(nth), step.Read)
		s.noteFault(true, "") // a works on
		b.buy(s.item(nth))
		in := b.getsIn(3 * s.ttl)
		first := a.finish()
		if in {
			return s.concludeTakeover(first, b, verify.NotAsked)
		}
		b.op.began = time.Now() // until now a was at work
		kept = s.keptOut(b, b.op.began)
	}

	return s.conclude(kept, "nobody else gets in before the holder is done")
}

// overtake pauses a buyer that has the lock, or half of it, and has not read yet.
// Another takes the lock over and is held just before it writes. What the first one reads
// when it wakes, the other is about to change.
func overtake(s *setup, take func(*client, market.ItemID)) observed {
	a, b := s.client("A"), s.client("B")
	start := time.Now()
	take(a, s.item(0))
	a.pause()

	kept := b.keptFrom(s.item(0), start, at(step.BeforeWrite))
	entered := time.Now()

	// The process runs on; its operation is held where take left it, until finish.
	a.resume()
	s.wait(s.ttl / 3) // a client that can notice the loss does so when it wakes
	first := a.finish()

	if kept != verify.NeverIn {
		s.checkInTime(entered)
		b.finish()
	}
	return s.concludeTakeover(first, b, kept)
}

// releaseLate pauses a seller's listing on its way out, at where. A buyer, b, takes the
// item's lock meanwhile, and is held in its critical section; the seller, a, wakes and
// releases; if that was the buyer's lock, one more buyer, c, gets in.
func releaseLate(s *setup, where step.Breakpoint, a, b, c *client) observed {
	// A listing, not a purchase: its lock is the item's, too, and the buyers then find the item
	// for sale.
	start := a.list(s.spare(0), where)
	item := s.spare(0).Item
	if a.held(clientTimeout) == "" {
		if !a.op.done || !a.op.outcome.Applied() {
			fail(errUnclear)
		}
		notApplicable("it tells of no such step of its release")
	}

	s.letRenew()
	a.pause()

	kept := b.keptFrom(item, start, at(step.BeforeWrite))
	entered := time.Now()
	s.letRenew()
	a.resume()
	s.letRenew()

	released := a.finish()

	if kept == verify.NeverIn {
		b.getsIn(s.forGood())
		b.mustBe(step.BeforeWrite)
		b.finish()
		return s.conclude(verify.HolderBack, "nobody gets in before the holder has released")
	}
	b.mustBe(step.BeforeWrite)

	two := c.comesBeside(item, entered, b)
	otherwise := "its late release leaves the next holder's lock alone"
	if released.LeaseLost {
		otherwise = "its late release finds the lock not its own, and says so"
	}
	return s.concludeBeside(two, kept, "its late release freed the next holder's lock", otherwise)
}

// letRenew waits for a renewal that is under way or due, or a lock that compares no
// tokens would be safe now and then.
func (s *setup) letRenew() { s.wait(s.ttl / 10) }

// raceForIt has several clients act on a lock that nobody holds any more. Each is held
// where it has looked at the lock, if it tells of that, and then either before it writes or,
// if it was refused, where it waits again: those before their write are inside at once.
func raceForIt(s *setup) observed {
	holder := s.client("A")
	waiting := []*client{s.client("B"), s.client("C"), s.client("D"), s.client("E")}
	item := holder.listUntilRelease(0).Item
	for _, w := range waiting {
		refused := step.Breakpoint{At: step.Waiting, After: step.Looked}
		w.buy(item, at(step.Looked), at(step.BeforeWrite), refused)
	}

	if s.scheme.expires() {
		holder.kill()
	} else {
		holder.finish()
	}

	inside := enter(s, waiting)
	s.noteFault(true, "")
	for _, w := range waiting { // those inside write, and the rest come after
		w.free()
	}

	in := inside > 0
	for _, w := range waiting { // each is waited for, even when it is known that one got in
		in = w.ends().entered() || in
	}
	if !in {
		return s.conclude(verify.NeverIn, "nobody gets in")
	}
	const how, otherwise = "two who look at the same time both take it", "one of them gets it"
	return s.concludeBeside(inside > 1, verify.NotAsked, how, otherwise)
}

// enter lets clients act on what they looked at when all that would look have, and says
// how many are inside at once. They act one after the other, which is as good as together:
// nobody acts before all have looked. Its scenario has no lease but TTL.
func enter(s *setup, waiting []*client) (inside int) {
	onTheirWay := func(c *client) bool { return c.at == "" }
	limit := time.Now().Add(s.forGood())
	for time.Now().Before(limit) && slices.ContainsFunc(waiting, onTheirWay) {
		for _, w := range waiting {
			// held forgets where a client is: it is not asked of those that have come.
			if w.at == "" && w.held(5*time.Millisecond) != "" {
				limit = time.Now().Add(TTL / 4) // who has not come by then does not come
			}
		}
	}

	start := time.Now()
	for _, w := range waiting {
		if w.at == step.Looked {
			w.goOn()
			w.held(TTL / 4)
		}
		if w.at == step.BeforeWrite {
			inside++
		}
	}
	s.checkInTime(start)
	return inside
}

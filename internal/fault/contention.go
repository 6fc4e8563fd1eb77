package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// severalClients are scenarios in which nothing fails: clients do what they are
// meant to, and yet it goes wrong.
var severalClients = []Scenario{{
	Name: "mixed",
	Title: "half of the clients use setnx on the same keys " +
		"(beside setnx: setnx-expire; beside a fence: none)",
	Needs:   "Unix signals",
	Applies: sharesKeys,
	run:     mixed,
}, {
	Name:  "overdraft",
	Title: "two clients buy different items from one account, which holds enough for one of them",
	Lease: restartLease,
	run:   overdraft,
}, {
	Name: "crossed",
	Title: "two clients want an item for one account, each holds one of the two locks, " +
		"and somebody else comes",
	Applies: only(Scheme.SeveralLocks, "no operation of it takes two locks"),
	run:     crossed,
}}

var sharesKeys = only(Scheme.usesMarketKeys,
	"its lock is no key of the market's Redis: nobody else uses it")

// usesMarketKeys reports whether the scheme's lock is a key that others may take, too.
func (s Scheme) usesMarketKeys() bool { return s.Lock.Needs == lock.NeedsNothing || s.fences() }

// mixed has two clients share keys: a has the scheme, and b another lock, see neighbour. If the
// scheme fences, b only writes late. Otherwise each tries to get in while the other holds its
// lock, and once more when it found the lock free and the other then took it. The last order of
// a has to be that of a.entersBeside: apart reads its outcome.
func mixed(s *setup) observed {
	other := must(s.scheme.neighbour())
	other = must(other.withLease(s.ttl))

	a := s.client("A")
	s.config.Scheme = other.String()
	b := s.client("B")

	s.noteFault(true, "")  // they meet
	if s.scheme.fences() { // and the other writes late, and compares no fences
		return pauseHolder(s, b, a)
	}

	slipped, slips := slipsIn(s, a, b, 3), slipsIn(s, b, a, 4)
	entered, enters := b.entersBeside(a, s.item(0)), a.entersBeside(b, s.item(1))
	entered, enters = entered || slipped, enters || slips

	how := fmt.Sprintf("%s and %s do not keep each other out", s.scheme.Name, other.Name)
	switch {
	case !enters && entered:
		how = fmt.Sprintf("%s gets in beside %s", other.Name, s.scheme.Name)
	case enters && !entered:
		how = fmt.Sprintf("%s gets in beside %s", s.scheme.Name, other.Name)
	case !enters && !entered:
		return apart(s, a, b, other)
	}

	return s.concludeBeside(true, verify.NotAsked, how, "")
}

// slipsIn has a client find a lock free, and the holder take it then. It reports whether
// that client still gets in; false, too, if it tells of no step.Looked.
func slipsIn(s *setup, holder, other *client, item int) bool {
	start := other.buy(s.item(item), at(step.Looked), at(step.BeforeWrite))
	if other.held(clientTimeout) != step.Looked {
		other.finish()
		return false
	}

	// The second wait passes whole if the lock keeps other out: with all before it, it has to stay
	// below the three quarters of a lease that checkInTime allows.
	holder.buy(s.item(item), at(step.BeforeWrite))
	holds := holder.held(s.ttl/4) == step.BeforeWrite
	other.goOn()
	in := holds && other.held(s.ttl/4) == step.BeforeWrite

	s.checkInTime(start)
	holder.finish()
	other.finish()
	return in
}

// apart says what else can happen: orders fail, a lock is given an expiry, or a late
// release deletes the other's.
func apart(s *setup, a, b *client, other Scheme) observed {
	// An order of a that waited until b had bought the item fails with not_listed: with any other
	// reason it did not wait.
	if why := a.op.outcome.Reason; why != "not_listed" {
		b.buyUntil(s.item(2), step.BeforeWrite)
		b.kill()
		a.buy(s.item(2))
		const fails = "while %s holds the lock, an order of %s fails (%s) instead of waiting; " +
			"when the holder is dead it is %s"
		return s.conclude(verify.OrdersFail, fmt.Sprintf(fails, other.Name, s.scheme.Name, why, a.ends()))
	}

	how, in := outlast(s, a, b, other)
	if in || s.scheme.FusesLock() || !s.scheme.expires() {
		return s.concludeBeside(in, verify.NotAsked, how, "each keeps the other out")
	}

	// C has other's scheme, as b has: mixed has left that in the configuration.
	o := releaseLate(s, at(step.BeforeRelease), a, b, s.client("C"))
	o.KeptOut = verify.NotAsked
	if o.Harm == verify.NoHarm {
		o.Why = "each keeps the other out; " + o.Why
	}
	return o
}

// outlast holds that of the two locks which never expires: one of them is setnx. It reports
// whether a waiter of the other makes it expire.
func outlast(s *setup, a, b *client, other Scheme) (how string, in bool) {
	holder, to := b, other
	waiter, from := a, s.scheme
	if !s.scheme.expires() {
		holder, to = a, s.scheme
		waiter, from = b, other
	}

	holder.buyUntil(s.item(2), step.BeforeWrite)
	waiter.buy(s.item(2), at(step.BeforeWrite))
	in = waiter.held(s.ttl+s.ttl/2) == step.BeforeWrite
	holder.finish()
	waiter.finish()

	how = fmt.Sprintf("a waiter of %s gives the lock of %s an expiry, and gets in after that",
		from.Name, to.Name)
	return how, in
}

func overdraft(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	b.account = a.account
	s.fund(a.account, price+price/2)
	a.buyUntil(s.item(0), step.BeforeWrite)
	s.noteFault(true, "") // a has found enough coins, and b comes before it has spent them
	b.buyBeside(s.item(1))

	why := fmt.Sprintf("the first order is %s, the second %s", a.finish(), b.finish())
	return s.conclude(verify.NotAsked, why)
}

// crossed holds one client between its two locks and lets another come as far as it can:
// to the same point, if it takes them in another order. That has bought something before,
// because the order may change from purchase to purchase.
func crossed(s *setup) observed {
	a, b, c := s.client("A"), s.client("B"), s.client("C")
	b.account = a.account
	b.buyToEnd(s.item(0))

	start := a.buyUntil(s.item(1), step.Between)
	s.noteFault(true, "") // a has one lock, and wants the other
	b.buy(s.item(1), at(step.Between), at(step.Waiting))

	why := "the second waits before it holds any lock"
	if b.held(clientTimeout) == step.Between {
		why = "each waits for the lock that the other holds, and everybody else with them"
	}
	s.checkInTime(start)

	a.free()
	b.free()

	kept := c.keptFrom(s.item(1), start)
	for _, x := range []*client{a, b} {
		o, ended := x.endsWithin(s.ttl / 4)
		// It gave up with the lock that c waited for: no lease ran out.
		if ended && o.Reason == contended && kept == verify.LeaseRanOut {
			kept = verify.GaveUp
		}
	}

	return s.conclude(kept, why)
}

var shared = lockThat(Scheme.shares, "it cannot be shared")

func (s Scheme) shares() bool { return s.Lock.Shares }

// readerFaults are scenarios in which readers share a lock and one of them
// leaves, in time or late.
var readerFaults = []Scenario{{
	Name:    "reader-leaves",
	Title:   "two readers share the lock; one leaves: is the other still protected from writers?",
	Promise: "shared",
	Applies: shared,
	run:     readerLeaves,
}, {
	Name:    "reader-late",
	Title:   "a reader pauses past its TTL, another enters, the first wakes and leaves: whose entry goes?",
	Promise: "owner-only release",
	Needs:   "Unix signals",
	Applies: shared,
	run:     readerLate,
}}

// readerLeaves starts nine clients, for whom there are just enough accounts: see setup.client.
func readerLeaves(s *setup) observed {
	first := besideReader(s, s.item(0), 0)
	last := besideReader(s, s.item(1), 1)
	// Only now, as all clients to come have it.
	s.config.Tick = time.Hour // both come in the same millisecond
	same := besideReader(s, s.item(2), 0)

	how := "a writer enters beside the reader who stays"
	switch {
	case !first && same:
		how = "when the reader who came last leaves, a writer enters beside the other; " +
			"of two who came in the same millisecond, whoever leaves lets one in"
	case !last:
		how = "when the first reader leaves, a writer enters beside the other"
	case !first:
		how = "when the reader who came last leaves, a writer enters beside the other"
	}

	beside := first || last || same
	return s.concludeBeside(beside, verify.NotAsked, how,
		"a writer waits for the last reader, whoever leaves first")
}

// besideReader lets two readers in, of which one leaves: 0, the first, or 1. It reports
// whether a writer gets in while the other's lease lasts.
func besideReader(s *setup, item market.ItemID, leaves int) bool {
	readers := []*client{s.client("A"), s.client("B")}
	writer := s.client("C")

	start := readers[0].browseUntilAcquired(item)
	// So that a lock that tells readers apart by their millisecond takes them for two.
	s.wait(2 * time.Millisecond)
	readers[1].browseUntilAcquired(item)

	readers[leaves].finish()
	s.noteFault(true, "")
	return writer.comesBeside(item, start, readers...)
}

func readerLate(s *setup) observed {
	one, two, writer := s.client("A"), s.client("B"), s.client("C")

	one.browseUntilAcquired(s.item(0))
	one.pause()
	s.wait(s.ttl + s.ttl/4)

	start := two.browseUntilAcquired(s.item(0))
	one.resume()
	one.finish()

	in := writer.comesBeside(s.item(0), start, two)
	return s.concludeBeside(in, verify.NotAsked,
		"the late reader freed the other's entry: a writer enters beside it",
		"the late reader frees its own entry only")
}

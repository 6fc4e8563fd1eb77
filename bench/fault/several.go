package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// severalClients are scenarios in which no client, server or network fails: what several clients do goes wrong, each of
// which does as it is meant to.
func severalClients() []Scenario {
	return []Scenario{{
		Name:  "lottery",
		Title: "ten try a lock once for a daily draw: the winner draws and releases, and one comes late",
		Lease: restartLease, Applies: needsLock, run: lottery,
	}, {
		Name:  "mixed",
		Title: "half of the clients use setnx on the same keys (beside setnx: setnx-expire; beside a fence: none)",
		Needs: "Unix signals", Applies: needsNeighbour, run: mixed,
	}, {
		Name:  "overdraft",
		Title: "two clients buy different items from one account, which holds enough for one of them",
		Lease: restartLease, run: overdraft,
	}, {
		Name:    "crossed",
		Title:   "two clients want an item for one account, each holds one of the two locks, and somebody else comes",
		Applies: needsTwoLocks, run: crossed,
	}}
}

// earlyTries is how many come while the winner draws.
const earlyTries = 8

func lottery(s *setup) observed {
	winner, others, late := s.client("A"), s.client("B"), s.client("C")
	draws := func(lock string, keep bool) (n int) {
		count := func(o Outcome) {
			if o.Applied() {
				n++
			}
		}
		start := time.Now()
		winner.draw(lock, keep, at(step.Acquired))
		winner.reaches(step.Acquired)
		for range earlyTries {
			others.draw(lock, keep)
			count(others.ends())
		}
		count(winner.finish())
		late.draw(lock, keep)
		count(late.ends())
		s.checkInTime(start)
		return n
	}
	released, kept := draws("draw", false), draws("draw-kept", true)
	o := s.saw(result.NotAsked, "drawn once")
	if released > 1 {
		o.harm, o.why = result.DoneTwice, fmt.Sprintf("whoever comes after the release finds the lock free and draws again:"+
			" %d draws; if the winner keeps the lock, %d", released, kept)
	}
	return o
}

// needsNeighbour keeps out schemes whose clients share nothing with those of another kind.
func needsNeighbour(s Scheme) string {
	switch {
	case s.neighbour == nil:
		return "it is not known what else uses its keys"
	case s.need() != "" && !s.fences():
		return "its lock is no key of the market's Redis: nobody else uses it"
	}
	return ""
}

// mixed lets clients of the scheme and of its neighbour meet.
func mixed(s *setup) observed {
	other, err := s.scheme.neighbour()
	s.check(err)
	other = other.lasting(s.ttl)
	a := s.client("A")
	s.config.Scheme = other.String()
	b := s.client("B")
	if s.scheme.fences() {
		return unfenced(s, b, a)
	}
	entered, enters := entersBeside(s, a, b, 0), entersBeside(s, b, a, 1)
	how := fmt.Sprintf("%s and %s do not keep each other out", s.scheme.Name, other.Name)
	switch {
	case !enters && entered:
		how = fmt.Sprintf("%s gets in beside %s", other.Name, s.scheme.Name)
	case enters && !entered:
		how = fmt.Sprintf("%s gets in beside %s", s.scheme.Name, other.Name)
	case !enters && !entered:
		return outlasting(s, a, b, other)
	}
	return s.sawBeside(true, result.NotAsked, how, "")
}

// unfenced pauses a client that does not fence past its TTL, lets one that does take over, and lets the first write.
func unfenced(s *setup, plain, fenced *client) observed {
	start := time.Now()
	plain.buyUntil(s.item(0), step.BeforeWrite)
	plain.pause()
	fenced.buy(s.item(0))
	kept := s.keptOut(fenced, start)
	plain.resume()
	return s.tookOver(plain.finish(), fenced, kept)
}

// outlasting holds whichever of two never expires for longer than a lease: one that expires may give its lock an end.
func outlasting(s *setup, a, b *client, other Scheme) observed {
	holder, waiter, from, to := b, a, s.scheme, other
	if !s.scheme.Expires {
		holder, waiter, from, to = a, b, other, s.scheme
	}
	if why := a.op.outcome.Reason; why != "not_listed" { // after b had bought the item that a came for
		return s.saw(result.NotAsked, fmt.Sprintf("%s does not wait for a lock of %s: its orders fail (%s)", s.scheme.Name,
			other.Name, why))
	}
	holder.buyUntil(s.item(2), step.BeforeWrite)
	waiter.buy(s.item(2), at(step.BeforeWrite))
	in := waiter.held(s.ttl+s.ttl/2) == step.BeforeWrite
	holder.finish()
	waiter.finish()
	how := fmt.Sprintf("a waiter of %s gives the lock of %s an expiry, and gets in after that", from.Name, to.Name)
	return s.sawBeside(in, result.NotAsked, how, "each keeps the other out")
}

func overdraft(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	b.account = a.account
	s.fund(a.account, price+price/2)
	a.buyUntil(s.item(0), step.BeforeWrite)
	why := "the second order waits for the first, and then finds too few coins"
	if b.buyBeside(s.item(1)) {
		why = "an order is refused, because the account is not what it was when it was read"
	}
	a.finish()
	b.finish()
	return s.saw(result.NotAsked, why)
}

// needsTwoLocks keeps out schemes that take one lock an operation at most.
func needsTwoLocks(s Scheme) string {
	if spec, ok := s.Purchasing.(strategies.Spec); !ok || !spec.SeveralLocks() {
		return "no operation of it takes two locks"
	}
	return ""
}

// crossed holds one client between its two locks and lets the other come as far as it can: to the same point, if it
// takes them in another order. It has bought something before, because an order may change from purchase to purchase.
func crossed(s *setup) observed {
	a, b, c := s.client("A"), s.client("B"), s.client("C")
	b.account = a.account
	b.buy(s.item(0))
	b.ends()
	start := time.Now()
	a.buyUntil(s.item(1), step.Between)
	b.buy(s.item(1), at(step.Between), at(step.Waiting))
	why := "both take the item's lock first: one waits for the other, and nobody in a circle"
	if b.held(clientTimeout) == step.Between {
		why = "each waits for the lock that the other holds, and everybody else with them"
	}
	s.checkInTime(start)
	a.release(doFree)
	b.release(doFree)
	c.buy(s.item(1))
	return s.saw(s.keptOut(c, start), why)
}

// besides returns the scheme that a spec is mixed with. One that fences meets the same without fences; a lock meets the
// book's lock without an expiry, and that one the book's with an expiry; what takes no lock meets the book's lock too.
func besides(c strategies.Catalogue, spec strategies.Spec) (Scheme, error) {
	const endless, ending = "setnx", "setnx-expire"
	under := ""
	if name := spec.Strategy().Name; name != locksUnder {
		under = name + ":"
	}
	kind, locks := spec.Lock()
	switch {
	case !locks:
		return Of(c, endless)
	case fences(spec):
		return Of(c, under+kind.Name)
	case kind.Name == endless:
		return Of(c, under+ending)
	}
	return Of(c, under+endless)
}

// fences reports whether the market refuses the writes of the scheme's former holders.
func fences(spec strategies.Spec) bool {
	fencing, _ := spec.Value("fencing")
	return fencing == "on" || fencing == "token"
}

func (s Scheme) fences() bool {
	spec, ok := s.Purchasing.(strategies.Spec)
	return ok && fences(spec)
}

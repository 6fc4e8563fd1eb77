package fault

import (
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// lostRelease loses the reply to each command of a release in turn. What the client sends after that is held until
// another has got in, or has been kept out for a while: whose lock does it free?
func lostRelease(s *setup) observed {
	b, c := s.client("B"), s.client("C")
	s.config.Resend = true
	proxies, commands, beside := s.ensembleProxies(), 1, false
	lose := loseMessages // of ZooKeeper or etcd, whose commands no proxy can read
	ensemble := len(proxies) > 0
	if !ensemble {
		proxies, lose = s.lockProxies(), loseReplyAndHold
	}
	a := s.client("A")
	if !ensemble {
		a.buys(s.item(0)) // loads the scripts
		a.lists(0)
		commands = len(s.recorded(proxies[0], func() { a.finish() }))
	}
	all := observed{Harm: verify.NoHarm, KeptOut: verify.AtOnce, Why: "nobody gets in beside the next holder"}
	for nth := 1; nth <= commands && all.KeptOut != verify.NeverIn; nth++ {
		in, one := releaseLost(s, nth, func() func() { return lose(s, proxies, nth) }, a, b, c)
		beside, all = beside || in, worst(all, one)
	}
	if ensemble {
		beside = takenAgain(s, proxies, a, c) || beside
	}
	how := "what its holder sends after the lost reply frees a lock that was taken since"
	return s.sawBeside(beside, all.KeptOut, how, all.Why)
}

// releaseLost loses a reply to the nth release. It reports whether two get in, and how long one is kept out.
func releaseLost(s *setup, nth int, lose func() func(), a, b, c *client) (beside bool, one observed) {
	l := a.lists(nth)
	sendAgain := lose()
	a.goOn()
	b.buy(l.Item, at(step.BeforeWrite))
	in, entered := b.held(s.ttl/4) == step.BeforeWrite, time.Now()
	sendAgain()
	a.listed()
	if in {
		return c.comesBeside(l.Item, entered, b), observed{Harm: verify.NoHarm, KeptOut: verify.AtOnce}
	}
	b.op.began = time.Now() // until now the holder was at its release
	one = observed{Harm: verify.NoHarm, Why: "the lock stays taken"}
	one.KeptOut = s.keptOut(b, a.op.began)
	b.free()
	if one.KeptOut != verify.NeverIn {
		b.ends()
	}
	return false, one
}

// takenAgain loses the reply to a release of a client that takes the lock again. Does another get in beside it?
func takenAgain(s *setup, proxies []*wire.Proxy, a, c *client) bool {
	l := a.lists(offered - 1)
	sendAgain := loseMessages(s, proxies, 1)
	a.goOn()
	c.buyAt(price+1, l.Item) // gets in when the release is applied, and is refused: the item stays
	c.ends()
	sendAgain()
	a.listed()
	return c.entersBeside(a, l.Item)
}

// listed waits until a listing has ended. One that was refused lost its lock before it wrote: the machine held it up.
func (c *client) listed() {
	c.ends()
	if c.op.outcome.Reason != "" {
		fail(errLate)
	}
}

// loseReplyAndHold loses the reply to the nth command from now on, and holds what comes after it until sendAgain.
func loseReplyAndHold(s *setup, proxies []*wire.Proxy, nth int) (sendAgain func()) {
	var traps []*wire.Trap
	for _, p := range proxies {
		traps = append(traps, p.LoseReply(wire.Match{Nth: nth}), p.Hold(wire.Match{Nth: nth + 1}))
	}
	return func() { s.spring(traps...) }
}

// loseMessages holds what servers answer, until sendAgain cuts the connections.
func loseMessages(s *setup, proxies []*wire.Proxy, _ int) (sendAgain func()) {
	for _, p := range proxies {
		p.HoldReplies()
	}
	return func() {
		for _, p := range proxies {
			p.Cut()
			p.Heal()
		}
		s.strikes(true, "")
	}
}

// spring opens traps, and notes whether they have caught what they were set for.
func (s *setup) spring(traps ...*wire.Trap) {
	for _, t := range traps {
		s.strikes(caught(t), "no such command came")
		t.Open()
	}
}

func caught(t *wire.Trap) bool {
	select {
	case <-t.Reached():
		return true
	default:
		return false
	}
}

// readerFaults are scenarios in which readers share a lock and one of them leaves, in time or late.
func readerFaults() []Scenario {
	shared := lockThat(func(s Scheme) bool { return s.Lock.Shares }, "it cannot be shared")
	return []Scenario{{
		Name: "reader-leaves", Title: "two readers share the lock; one leaves: is the other still protected from writers?",
		Promise: "shared", Applies: shared, run: readerLeaves,
	}, {
		Name:    "reader-late",
		Title:   "a reader pauses past its TTL, another enters, the first wakes and leaves: whose entry goes?",
		Promise: "owner-only release", Needs: "Unix signals", Applies: shared, run: readerLate,
	}}
}

func readerLeaves(s *setup) observed {
	first := besideReader(s, s.item(0), func(first, _ *client) *client { return first })
	last := besideReader(s, s.item(1), func(_, last *client) *client { return last })
	s.config.Tick = time.Hour // both come in the same millisecond
	same := besideReader(s, s.item(2), func(first, _ *client) *client { return first })
	how := "a writer enters beside the reader who stays"
	switch {
	case !first && same:
		how = "when the reader who came last leaves, a writer enters beside the other; " +
			"of two who came in the same millisecond, whoever leaves lets one in"
	case !last:
		how = "when the reader who came first leaves, a writer enters beside the other"
	case !first:
		how = "when the reader who came last leaves, a writer enters beside the other"
	}
	beside := first || last || same
	return s.sawBeside(beside, verify.NotAsked, how, "a writer waits for the last reader, whoever leaves first")
}

// besideReader lets two readers in and one leave, and reports whether a writer gets in while the other's lease lasts.
func besideReader(s *setup, item market.ItemID, leaver func(first, last *client) *client) bool {
	one, two, writer := s.client("A"), s.client("B"), s.client("C")
	start := one.browseUntil(item, step.Acquired)
	s.wait(2 * time.Millisecond) // so that a lock that tells readers apart by their millisecond takes them for two
	two.browseUntil(item, step.Acquired)
	leaver(one, two).finish()
	s.strikes(true, "")
	return writer.comesBeside(item, start, one, two)
}

func readerLate(s *setup) observed {
	one, two, writer := s.client("A"), s.client("B"), s.client("C")
	one.browseUntil(s.item(0), step.Acquired)
	one.pause()
	s.wait(s.ttl + s.ttl/4)
	start := two.browseUntil(s.item(0), step.Acquired)
	one.resume()
	one.finish()
	in := writer.comesBeside(s.item(0), start, two)
	return s.sawBeside(in, verify.NotAsked, "the late reader freed the other's entry: a writer enters beside it",
		"the late reader frees its own entry only")
}

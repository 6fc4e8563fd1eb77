package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// lostAcquireReply measures how long b is kept out by a lock that a may have without knowing;
// or a itself, if its lock asks again although its client sends nothing again.
func lostAcquireReply(s *setup) observed {
	return atEachAcquisition(s, false, "others get in at once",
		func(nth int, a, b *client, lease time.Time, heal func()) (kept verify.KeptOut, why string) {
			if _, ended := a.endsWithin(s.ttl / 4); !ended { // it asks again by itself
				kept = s.keptOut(a, lease)
				heal()
				return kept, "it waits for a lock that nobody else wants"
			}
			heal()
			kept = b.keptFrom(s.item(nth), lease)
			return kept, entry(kept)
		})
}

// resentAcquire measures a, which sends again by itself and should get in at once. Only if it
// does, b shows whether its release has freed the lock.
func resentAcquire(s *setup) observed {
	return atEachAcquisition(s, true, "it gets in at once, and others after its release",
		func(nth int, a, b *client, lease time.Time, heal func()) (verify.KeptOut, string) {
			kept := s.keptOut(a, lease)
			heal()
			switch kept {
			case verify.AtOnce:
			case verify.OrdersFail:
				return kept, "its order fails (" + a.op.outcome.Reason + ")"
			default:
				return kept, "it waits for a lock that nobody else wants"
			}
			return b.keptFrom(s.item(nth), lease), "it gets in, and others are kept out after its release"
		})
}

// atEachAcquisition loses the reply to each command of an acquisition in turn. then sees
// what becomes of a, which takes the lock, and of another, b; it calls heal when no more
// is to be lost. safe is the reason if nobody is kept out. What the first of several masters
// is sent in a rehearsal stands for what each is sent.
func atEachAcquisition(s *setup, resend bool, safe string,
	then func(nth int, a, b *client, lease time.Time, heal func()) (verify.KeptOut, string),
) observed {
	if !s.scheme.Lock.Needs.InRedis() {
		notPlayable("no proxy reads the protocol of its servers, to tell the command that takes the lock")
	}

	b := s.client("B") // does not use the proxies, and sends nothing again
	s.config.Resend = resend
	proxies := s.lockProxies()
	a := s.client("A")

	a.buyToEnd(s.item(0)) // loads the scripts
	names := s.record(proxies[0], func() {
		a.buyUntil(s.item(offered-1), step.Acquired)
	})
	a.finish()
	if most := accounts - 3; len(names) > most { // the seller, a and b have an account each
		fail(fmt.Errorf("the lock took %d commands, and there are accounts for %d more clients: %w",
			len(names), most, errLate)) // a late reply may have been asked for again
	}

	kept, why := verify.AtOnce, safe
	// It ends at NeverIn: b's order may then still be under way, and b cannot be told another.
	for nth := 1; nth <= len(names) && kept != verify.NeverIn; nth++ {
		var traps []*wire.Trap
		// Not the nth of all commands: a client may connect again meanwhile.
		match := wire.Match{Command: names[nth-1]}
		for _, name := range names[:nth] {
			if name == match.Command {
				match.Nth++
			}
		}

		a := s.client("A") // which holds no earlier lock that might be renewed
		for _, p := range proxies {
			traps = append(traps, p.LoseReply(match))
		}

		lease := a.buy(s.item(nth))
		now, because := then(nth, a, b, lease, func() { s.spring(traps...) })
		if longer(kept, now) != kept {
			kept = now
			why = because
		}
	}

	return s.conclude(kept, why)
}

// lostRelease loses the reply to each command of a release in turn. What its client
// sends after that is held until another has got in, or has been kept out for a
// while. Whose lock does it free?
func lostRelease(s *setup) observed {
	// They connect past the proxies: what they send is not counted there, nor held.
	b, c := s.client("B"), s.client("C")
	s.config.Resend = true

	proxies := s.ensembleProxies()
	ensemble := len(proxies) > 0
	lose := loseMessages // for ZooKeeper and etcd, whose commands no proxy can read
	if !ensemble {
		proxies = s.lockProxies()
		lose = loseReplyAndHold
	}

	a := s.client("A")
	commands := 1 // of an ensemble: loseMessages loses whatever its servers answer
	if !ensemble {
		a.buyToEnd(s.item(0)) // loads the scripts
		a.listUntilRelease(0)
		commands = len(s.record(proxies[0], func() { a.finish() }))
	}

	beside := false
	kept := verify.AtOnce
	for nth := 1; nth <= commands && kept != verify.NeverIn; nth++ {
		loseNth := func() (sendAgain func()) {
			return lose(s, proxies, nth)
		}
		in, now := releaseLost(s, nth, loseNth, a, b, c)
		beside = beside || in
		kept = longer(kept, now)
	}

	otherwise := "nobody gets in beside the next holder"
	if kept != verify.AtOnce {
		otherwise = "the lock stays taken"
	}
	if ensemble {
		beside = takenAgain(s, proxies, a, c) || beside
	}

	how := "what its holder sends after the lost reply frees a lock that was taken since"
	return s.concludeBeside(beside, kept, how, otherwise)
}

// releaseLost loses a reply in the nth release. It reports whether two get in,
// and how long one is kept out.
func releaseLost(
	s *setup, nth int, lose func() (sendAgain func()), a, b, c *client,
) (beside bool, kept verify.KeptOut) {
	l := a.listUntilRelease(nth)
	sendAgain := lose()
	a.goOn()

	b.buy(l.Item, at(step.BeforeWrite))
	in := b.held(s.ttl/4) == step.BeforeWrite
	// Its lease began up to a quarter earlier: checkInTime leaves that much of it.
	entered := time.Now()
	sendAgain()
	a.awaitListed()
	if in {
		return c.comesBeside(l.Item, entered, b), verify.AtOnce
	}

	b.op.began = time.Now() // until now the holder was at its release
	kept = s.keptOut(b, a.op.began)
	b.free()
	if kept != verify.NeverIn { // else it may not end, and is used no more
		b.ends()
	}
	return false, kept
}

// takenAgain loses the reply to a release; its client then takes the lock again.
// Does another get in beside it?
func takenAgain(s *setup, proxies []*wire.Proxy, a, c *client) bool {
	l := a.listUntilRelease(offered - 1)
	sendAgain := loseMessages(s, proxies, 1)
	a.goOn()
	c.buyAt(price+1, l.Item) // gets in when the release is applied, and is refused: the item stays
	c.ends()
	sendAgain()
	a.awaitListed()
	return c.entersBeside(a, l.Item)
}

// awaitListed waits until a listing has ended. If it is refused, the machine was so
// slow that it lost its lock.
func (c *client) awaitListed() {
	c.ends()
	if c.op.outcome.Reason != "" {
		fail(errLate)
	}
}

// loseReplyAndHold loses the reply to the nth command from now on, and holds what
// comes after it until sendAgain.
func loseReplyAndHold(s *setup, proxies []*wire.Proxy, nth int) (sendAgain func()) {
	var traps []*wire.Trap
	for _, p := range proxies {
		traps = append(traps, p.LoseReply(wire.Match{Nth: nth}), p.Hold(wire.Match{Nth: nth + 1}))
	}
	return func() { s.spring(traps...) }
}

// loseMessages holds what servers answer until sendAgain, which cuts the
// connections, so that it is lost.
func loseMessages(s *setup, proxies []*wire.Proxy, _ int) (sendAgain func()) {
	for _, p := range proxies {
		p.HoldReplies()
	}
	return func() {
		for _, p := range proxies {
			p.Cut()
			p.Heal()
		}
		s.noteFault(true, "")
	}
}

// lostLeave loses the reply to the release of the inner of two entries. The holder
// works on, and another comes.
func lostLeave(s *setup) observed {
	b := s.client("B") // does not use the proxy, and sends nothing again
	s.config.Resend = true
	proxy := s.lockProxies()[0] // the only one: no lock on several masters can be entered twice
	a := s.client("A")
	a.buyToEnd(s.item(0)) // loads the scripts

	start := a.buy(s.item(1), at(step.BeforeLeave), at(step.BeforeWrite))
	a.awaitStep(step.BeforeLeave)

	reply := proxy.LoseReply(wire.Match{})
	a.goOn()
	a.awaitStep(step.BeforeWrite)
	s.spring(reply)

	in := b.comesBeside(s.item(1), start, a)
	how := "the inner release is counted twice, and frees the lock of the holder who works on"
	return s.concludeBeside(in, verify.NotAsked, how, "nobody gets in beside the holder who works on")
}

func lostUnlockMessage(s *setup) observed {
	a := s.client("A")
	proxy := s.lockProxies()[0] // for b alone: a has connected
	b := s.client("B")

	lease := a.buyUntil(s.item(0), step.BeforeWrite)
	b.buy(s.item(0), at(step.Waiting), at(step.Waiting))
	b.awaitStep(step.Waiting)
	b.goOn()
	b.awaitStep(step.Waiting)

	proxy.DropMessages() // b knows by now how long the lease lasts
	b.goOn()
	a.finish()
	b.op.began = time.Now() // until now a was at work

	kept := s.keptOut(b, lease)
	s.noteFault(proxy.Dropped() > 0, "no message was sent")
	return s.conclude(kept, "without the message "+entry(kept))
}

package fault

import (
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/verify"
)

// networkFaults are scenarios in which commands, replies or messages are lost or late.
var networkFaults = []Scenario{{
	Name: "lost-acquire", Title: "the reply to the command that takes the lock is lost",
	Applies: needsLock, run: lostAcquireReply,
}, {
	Name: "resent-acquire", Applies: needsLock, run: resentAcquire,
	Title: "the same with go-redis's default MaxRetries: the client asks for the lock again by itself",
}, {
	Name: "lost-release", Applies: needsLock, run: lostRelease,
	Title: "the reply to a command of the release is lost; the next one gets in, and the command is sent again",
}, {
	Name:    "lost-leave",
	Title:   "a holder that has entered twice leaves once; the reply is lost, it is sent again, and another tries",
	Applies: only(func(s Scheme) bool { return s.value("entries") == "2" }, "it enters its lock once"), run: lostLeave,
}, {
	Name: "lost-reply", Title: "the reply to the write (EXEC) is lost, and the caller tries again",
	run: lostWriteReply,
}, {
	Name: "resent", run: resentWrite,
	Title: "the same with go-redis's default MaxRetries: the client sends the write again by itself",
}, {
	Name: "resent-late", run: resentLate,
	Title: "the write is delayed and sent again; the first copy arrives after the client's next purchase",
}, {
	Name: "cut", Title: "the connection is cut in the middle of the purchase, before each of its writes",
	run: cutMidPurchase,
}, {
	Name: "lost-message", Title: "the message that tells of the release is lost",
	Applies: lockThat(func(s Scheme) bool { return strings.Contains(s.Lock.Wakes, "pub/sub") },
		"no message tells its waiters"),
	run: lostUnlockMessage,
}, {
	Name: "partition", run: partitionHeals,
	Title: "a partition cuts the holder off as it writes, another takes over, the partition heals and the write arrives",
}, {
	Name: "late-write", run: lateWrite,
	Title: "the write is on its way for longer than its client waits for the reply: another comes in, " +
		"and then the write arrives",
}}

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
// is to be lost. safe is the reason if nobody is kept out.
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

	a.buys(s.item(0)) // loads the scripts
	names := s.recorded(proxies[0], func() { a.buyUntil(s.item(offered-1), step.Acquired) })
	a.finish()

	kept, why := verify.AtOnce, safe
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
			kept, why = now, because
		}
	}

	return s.saw(kept, why)
}

func lostWriteReply(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *client, item int, _ *wire.Proxy) string {
		return "the second order is " + a.buys(s.item(item)).String() + ": bought once"
	})
}

func resentWrite(s *setup) observed {
	s.config.Resend = true
	return atEachWrite(s, (*wire.Proxy).LoseReply, func(_ *client, nth int, proxy *wire.Proxy) string {
		if sent := proxy.Commands(); len(sent) > nth && slices.Contains(sent[nth:], sent[nth-1]) {
			return "its client sends the write again, and nothing more changes"
		}
		return "its client does not send the write again"
	})
}

// resentLate holds the first command of a write until the client has sent it
// again and bought something else.
func resentLate(s *setup) observed {
	s.config.Resend, s.config.Patience = true, s.ttl/4
	proxy := s.marketProxy()
	a := s.client("A")
	sent(proxy, 0, func() { a.buys(s.item(0)) }) // loads the scripts

	a.buyUntil(s.item(1), step.BeforeWrite)
	first := proxy.Hold(wire.Match{})
	write := sent(proxy, 1, func() { a.finish() })
	sent(proxy, 0, func() { a.buys(s.item(2)) })

	s.spring(first)
	if len(write) < 2 || !slices.Contains(write[1:], write[0]) {
		notApplicable("its write is not sent again")
	}
	s.await(first.Answered())
	return s.saw(verify.NotAsked, "the copy that arrives late changes nothing")
}

func cutMidPurchase(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseCommand, func(*client, int, *wire.Proxy) string {
		return "wherever it is cut, all of the purchase is made or nothing"
	})
}

// atEachWrite makes a purchase for each command that writes one, and loses that or its
// reply. then says what it saw.
func atEachWrite(s *setup,
	lose func(*wire.Proxy, wire.Match) *wire.Trap,
	then func(a *client, nth int, proxy *wire.Proxy) string,
) observed {
	proxy := s.marketProxy()
	a := s.client("A")
	writes := len(s.writesOf(a, proxy))

	why := ""
	for nth := 1; nth <= writes; nth++ {
		a.buyUntil(s.item(nth), step.BeforeWrite)
		trap := lose(proxy, wire.Match{Nth: nth})
		proxy.Record()
		a.finish()
		why = then(a, nth, proxy)
		s.spring(trap)
	}

	return s.saw(verify.NotAsked, why)
}

// writesOf names the commands that write a purchase once its scripts are loaded. It
// buys item 0 and the last one.
func (s *setup) writesOf(a *client, proxy *wire.Proxy) []string {
	a.buys(s.item(offered - 1)) // loads the scripts

	a.buy(s.item(0), at(step.BeforeWrite), at(step.Written))
	a.awaitStep(step.BeforeWrite)

	names := s.recorded(proxy, func() {
		a.goOn()
		a.awaitStep(step.Written)
	})
	a.finish()
	return names
}

// lostLeave loses the reply to the release of the inner of two entries. The holder
// works on, and another comes.
func lostLeave(s *setup) observed {
	b := s.client("B")
	s.config.Resend = true
	proxy := s.lockProxies()[0]
	a := s.client("A")
	a.buys(s.item(0)) // loads the scripts

	start := a.buy(s.item(1), at(step.BeforeLeave), at(step.BeforeWrite))
	a.awaitStep(step.BeforeLeave)

	reply := proxy.LoseReply(wire.Match{})
	a.goOn()
	a.awaitStep(step.BeforeWrite)
	s.spring(reply)

	in := b.comesBeside(s.item(1), start, a)
	how := "the inner release is counted twice, and frees the lock of the holder who works on"
	return s.sawBeside(in, verify.NotAsked, how, "nobody gets in beside the holder who works on")
}

func lostUnlockMessage(s *setup) observed {
	a := s.client("A")
	proxy := s.lockProxies()[0]
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
	s.strikes(proxy.Dropped() > 0, "no message was sent")
	return s.saw(kept, "without the message "+entry(kept))
}

// separateWrites is how many commands that are not one transaction write a
// client's purchase: at least one.
func (s *setup) separateWrites(c *client, proxy *wire.Proxy) int {
	names := s.writesOf(c, proxy)
	if len(names) > 0 && strings.EqualFold(names[0], "multi") {
		return 1
	}
	return max(len(names), 1)
}

// lateWrite holds each command of a write, in a purchase of its own, until its client has
// given up and another got in.
func lateWrite(s *setup) observed {
	b := s.client("B")
	s.config.Patience = s.ttl / 3
	proxy := s.marketProxy()
	a := s.client("A")
	writes := s.separateWrites(a, proxy)

	longest := verify.NotAsked
	for nth := 1; nth <= writes; nth++ {
		lease := a.buyUntil(s.item(nth), step.BeforeWrite)
		write := proxy.Hold(wire.Match{Nth: nth})
		a.finish()
		kept := b.keptFrom(s.item(nth), lease)
		s.spring(write)
		if caught(write) {
			s.await(write.Ended())
		}
		longest = longer(longest, kept)
	}

	return s.saw(longest, "the write that arrives late changes nothing")
}

// partitionHeals cuts the holder off for longer than it waits for a reply.
func partitionHeals(s *setup) observed {
	b := s.client("B")
	s.config.Patience = s.ttl / 2
	atMarket := s.marketProxy()
	proxies := slices.Concat(s.ensembleProxies(), s.lockProxies(), []*wire.Proxy{atMarket})
	a := s.client("A")

	start := a.buyUntil(s.item(0), step.BeforeWrite)
	for _, p := range proxies {
		p.Partition()
	}
	a.goOn()

	kept := b.keptFrom(s.item(0), start)
	o, ended := a.endsWithin(time.Millisecond)
	s.strikes(!ended || o.Unknown(), "it writes in spite of the partition")

	atMarket.Heal()
	s.wait(s.ttl / 4) // the write was sent before the release, and arrives before it
	for _, p := range proxies {
		p.Heal()
	}

	first := a.ends()
	if first.Unknown() { // it has given up; what it sent arrives all the same
		s.wait(s.ttl / 2)
	}
	return s.tookOver(first, b, kept)
}

// lostRelease loses the reply to each command of a release in turn. What its client
// sends after that is held until another has got in, or has been kept out for a
// while. Whose lock does it free?
func lostRelease(s *setup) observed {
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
	commands := 1
	if !ensemble {
		a.buys(s.item(0)) // loads the scripts
		a.lists(0)
		commands = len(s.recorded(proxies[0], func() { a.finish() }))
	}

	beside := false
	kept := verify.AtOnce
	for nth := 1; nth <= commands && kept != verify.NeverIn; nth++ {
		in, now := releaseLost(s, nth, func() func() { return lose(s, proxies, nth) }, a, b, c)
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
	return s.sawBeside(beside, kept, how, otherwise)
}

// releaseLost loses a reply in the nth release. It reports whether two get in,
// and how long one is kept out.
func releaseLost(s *setup, nth int, lose func() func(), a, b, c *client) (beside bool, kept verify.KeptOut) {
	l := a.lists(nth)
	sendAgain := lose()
	a.goOn()

	b.buy(l.Item, at(step.BeforeWrite))
	in := b.held(s.ttl/4) == step.BeforeWrite
	entered := time.Now()
	sendAgain()
	a.listed()
	if in {
		return c.comesBeside(l.Item, entered, b), verify.AtOnce
	}

	b.op.began = time.Now() // until now the holder was at its release
	kept = s.keptOut(b, a.op.began)
	b.free()
	if kept != verify.NeverIn {
		b.ends()
	}
	return false, kept
}

// takenAgain loses the reply to a release; its client then takes the lock again.
// Does another get in beside it?
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

// listed waits until a listing has ended. If it is refused, the machine was so
// slow that it lost its lock.
func (c *client) listed() {
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

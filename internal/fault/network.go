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
	Name:    "lost-acquire",
	Title:   "the reply to the command that takes the lock is lost",
	Applies: needsLock,
	run:     lostAcquireReply,
}, {
	Name:    "resent-acquire",
	Title:   "the same with go-redis's default MaxRetries: the client asks for the lock again by itself",
	Applies: needsLock,
	run:     resentAcquire,
}, {
	Name: "lost-release",
	Title: "the reply to a command of the release is lost; " +
		"the next one gets in, and the command is sent again",
	Applies: needsLock,
	run:     lostRelease,
}, {
	Name: "lost-leave",
	Title: "a holder that has entered twice leaves once; " +
		"the reply is lost, it is sent again, and another tries",
	Applies: only(Scheme.entersTwice, "it enters its lock once"),
	run:     lostLeave,
}, {
	Name:  "lost-reply",
	Title: "the reply to the write (EXEC) is lost, and the caller tries again",
	run:   lostWriteReply,
}, {
	Name:  "resent",
	Title: "the same with go-redis's default MaxRetries: the client sends the write again by itself",
	run:   resentWrite,
}, {
	Name:  "resent-late",
	Title: "the write is delayed and sent again; the first copy arrives after the client's next purchase",
	run:   resentLate,
}, {
	Name:  "cut",
	Title: "the connection is cut in the middle of the purchase, before each of its writes",
	run:   cutMidPurchase,
}, {
	Name:    "lost-message",
	Title:   "the message that tells of the release is lost",
	Applies: lockThat(Scheme.sendsMessages, "no message tells its waiters"),
	run:     lostUnlockMessage,
}, {
	Name: "partition",
	Title: "a partition cuts the holder off as it writes, another takes over, " +
		"the partition heals and the write arrives",
	run: partitionHeals,
}, {
	Name: "late-write",
	Title: "the write is on its way for longer than its client waits for the reply: another comes in, " +
		"and then the write arrives",
	run: lateWrite,
}}

func (s Scheme) entersTwice() bool { return s.value("entries") == "2" }

// sendsMessages reports whether a release tells waiters, by a message that may be lost.
func (s Scheme) sendsMessages() bool { return strings.Contains(s.Lock.Wakes, "pub/sub") }

func lostWriteReply(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *client, item int, _ *wire.Proxy) string {
		return "the second order is " + a.buyToEnd(s.item(item)).String() + ": bought once"
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
	s.config.Resend = true
	s.config.Patience = s.ttl / 4
	proxy := s.marketProxy()
	a := s.client("A")
	sent(proxy, 0, func() { a.buyToEnd(s.item(0)) }) // loads the scripts

	a.buyUntil(s.item(1), step.BeforeWrite)
	first := proxy.Hold(wire.Match{})
	write := sent(proxy, 1, func() { a.finish() })
	sent(proxy, 0, func() { a.buyToEnd(s.item(2)) })

	s.spring(first)
	if len(write) < 2 || !slices.Contains(write[1:], write[0]) {
		notApplicable("its write is not sent again")
	}
	s.await(first.Answered()) // before the market is counted
	return s.conclude(verify.NotAsked, "the copy that arrives late changes nothing")
}

func cutMidPurchase(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseCommand, func(*client, int, *wire.Proxy) string {
		return "wherever it is cut, all of the purchase is made or nothing"
	})
}

// atEachWrite makes a purchase for each command that writes one, and loses that or its
// reply. then says what it saw, when the order has ended: proxy has recorded the commands of
// the write from the first on, of which the nth is the one that was lost.
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

	return s.conclude(verify.NotAsked, why)
}

// writesOf names the commands that write a purchase once its scripts are loaded. It
// buys item 0 and the last one.
func (s *setup) writesOf(a *client, proxy *wire.Proxy) []string {
	a.buyToEnd(s.item(offered - 1)) // loads the scripts

	a.buy(s.item(0), at(step.BeforeWrite), at(step.Written))
	a.awaitStep(step.BeforeWrite)

	names := s.record(proxy, func() {
		a.goOn()
		a.awaitStep(step.Written)
	})
	a.finish()
	return names
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
	b := s.client("B") // writes past the proxy, which counts and holds what a sends
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
		if caught(write) { // else Ended is nil, and nothing arrives late
			s.await(write.Ended())
		}
		longest = longer(longest, kept)
	}

	return s.conclude(longest, "the write that arrives late changes nothing")
}

// partitionHeals cuts the holder off for longer than it waits for a reply.
func partitionHeals(s *setup) observed {
	b := s.client("B") // is not cut off: it has connected without the proxies
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
	s.noteFault(!ended || o.Unknown(), "it writes in spite of the partition")

	atMarket.Heal()
	s.wait(s.ttl / 4) // the write was sent before the release, and arrives before it
	for _, p := range proxies {
		p.Heal()
	}

	first := a.ends()
	if first.Unknown() { // it has given up; what it sent arrives all the same
		s.wait(s.ttl / 2)
	}
	return s.concludeTakeover(first, b, kept)
}

// spring opens traps, and notes whether they have caught what they were set for.
func (s *setup) spring(traps ...*wire.Trap) {
	for _, t := range traps {
		s.noteFault(caught(t), "no such command came")
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

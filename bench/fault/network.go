package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
)

// networkFaults are scenarios in which commands, replies or messages are lost or late.
func networkFaults() []Scenario {
	return []Scenario{{
		Name: "lost-acquire", Title: "the reply to the command that takes the lock is lost",
		Applies: needsRedisLock, run: lostAcquireReply,
	}, {
		Name:    "resent-acquire",
		Title:   "the same with go-redis's default MaxRetries: the client asks for the lock again by itself",
		Applies: needsRedisLock, run: resentAcquire,
	}, {
		Name:    "lost-release",
		Title:   "the reply to a command of the release is lost; the next one gets in, and the command is sent again",
		Applies: needsLock, run: lostRelease,
	}, {
		Name: "lost-reply", Title: "the reply to the write (EXEC) is lost, and the caller tries again",
		run: lostWriteReply,
	}, {
		Name:  "resent",
		Title: "the same with go-redis's default MaxRetries: the client sends the write again by itself",
		run:   resentWrite,
	}, {
		Name: "cut", Title: "the connection is cut in the middle of the purchase, before each of its writes",
		run: cutMidPurchase,
	}, {
		Name: "lost-message", Title: "the message that tells of the release is lost",
		Applies: needsMessages, run: lostUnlockMessage,
	}, {
		Name:  "partition",
		Title: "a partition cuts the holder off as it writes, another takes over, the partition heals and the write arrives",
		run:   partitionHeals,
	}}
}

// needsRedisLock keeps out schemes without a lock, and locks whose commands a proxy cannot read.
func needsRedisLock(s Scheme) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if !s.need().InRedis() {
		return "it is not taken by a command of Redis"
	}
	return ""
}

// lostAcquireReply loses the reply to each command of an acquisition in turn.
func lostAcquireReply(s *setup) observed {
	b := s.client("B")
	proxies := s.lockProxies()
	a := s.client("A")
	commands := rehearseLock(s, proxies, a)
	all := observed{harm: result.NoHarm, kept: result.AtOnce, why: "it gives back what it may have taken: others get in at once"}
	for nth := 1; nth <= commands && all.kept != result.NeverIn; nth++ {
		heal := loseReplies(proxies, nth)
		lease := time.Now()
		a.buy(s.item(nth))
		a.ends()
		heal()
		b.buy(s.item(nth))
		one := observed{kept: s.keptOut(b, lease), harm: result.NoHarm}
		switch one.kept {
		case result.NeverIn:
			one.why = "the lock is taken, and nobody knows that it has it"
		case result.LeaseRanOut:
			one.why = "the lock is taken, and nobody knows: others get in when it has run out"
		}
		all = all.worst(one)
	}
	return s.saw(all.kept, all.why)
}

func resentAcquire(s *setup) observed {
	b := s.client("B")
	s.config.Resend = true
	proxies := s.lockProxies()
	a := s.client("A")
	commands := rehearseLock(s, proxies, a)
	all := observed{
		harm: result.NoHarm, kept: result.AtOnce, why: "asked for twice, the lock is held once: it is given back with the release",
	}
	for nth := 1; nth <= commands && all.kept != result.NeverIn; nth++ {
		heal := loseReplies(proxies, nth)
		lease := time.Now()
		a.buy(s.item(nth))
		one := observed{kept: s.keptOut(a, lease), harm: result.NoHarm}
		heal()
		switch one.kept {
		case result.NeverIn:
			one.why = "it finds the lock taken, by itself, and waits for good"
		case result.LeaseRanOut:
			one.why = "it finds the lock taken, by itself, and waits for its own lease to run out"
		default:
			b.buy(s.item(nth))
			one.kept, one.why = s.keptOut(b, lease), "what it asked for twice counts twice, and is given back once"
		}
		all = all.worst(one)
	}
	return s.saw(all.kept, all.why)
}

// loseReplies makes each proxy lose the reply to its nth command from now on, until heal is called.
func loseReplies(proxies []*wire.Proxy, nth int) (heal func()) {
	traps := make([]*wire.Trap, len(proxies))
	for i, p := range proxies {
		traps[i] = p.LoseReply(wire.Match{Nth: nth})
	}
	return func() {
		for _, t := range traps {
			t.Open()
		}
	}
}

// rehearseLock makes a purchase and counts the commands that take its lock.
func rehearseLock(s *setup, proxies []*wire.Proxy, a *client) (commands int) {
	a.buy(s.item(0)) // loads the scripts
	a.ends()
	proxies[0].Record()
	a.buyUntil(s.item(offered-1), step.Acquired)
	commands = len(proxies[0].Commands())
	a.finish()
	if commands == 0 || commands >= offered-1 {
		s.fail(fmt.Errorf("the rehearsal of an acquisition took %d commands", commands))
	}
	return commands
}

func lostWriteReply(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *client, item int) {
		if a.ends().Unknown() {
			a.buy(s.item(item))
			a.ends()
		}
	}, "whoever tries again looks first, and finds the item gone: bought once")
}

func resentWrite(s *setup) observed {
	s.config.Resend = true
	return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *client, _ int) { a.ends() },
		"bought once: a transaction is not sent again, and what is sent again changes nothing more")
}

func cutMidPurchase(s *setup) observed {
	return atEachWrite(s, (*wire.Proxy).LoseCommand, func(a *client, _ int) { a.ends() },
		"its writes are one transaction or script: all of them or none")
}

// atEachWrite rehearses a purchase to learn which commands write it, and makes one purchase for each of them, in which
// that command or its reply is lost.
func atEachWrite(s *setup, lose func(*wire.Proxy, wire.Match) *wire.Trap, then func(a *client, item int), safe string,
) observed {
	proxy := s.marketProxy()
	a := s.client("A")
	writes := s.nth // of a scheme that does not say when it writes: each of its commands in turn
	if s.scheme.Steps {
		writes = rehearseWrite(s, proxy, a)
	} else {
		a.buy(s.item(0)) // connects, and loads scripts
		a.ends()
	}
	for nth := max(1, s.nth); nth <= writes; nth++ {
		if s.scheme.Steps {
			a.buyUntil(s.item(nth), step.BeforeWrite)
		}
		trap := lose(proxy, wire.Match{Nth: nth})
		if s.scheme.Steps {
			a.goOn()
		} else {
			a.buy(s.item(nth))
		}
		then(a, nth)
		trap.Open()
	}
	return s.saw(result.NotAsked, safe)
}

// rehearseWrite makes a purchase and counts the commands of its write.
func rehearseWrite(s *setup, proxy *wire.Proxy, a *client) (writes int) {
	a.buy(s.item(0), at(step.BeforeWrite), at(step.Written))
	a.reaches(step.BeforeWrite)
	proxy.Record()
	a.goOn()
	a.reaches(step.Written)
	writes = len(proxy.Commands())
	a.finish()
	if writes == 0 || writes >= offered {
		s.fail(fmt.Errorf("the rehearsal of a purchase wrote with %d commands", writes))
	}
	return writes
}

// needsMessages keeps out locks whose waiters wait for no message of Redis.
func needsMessages(s Scheme) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if !subscribes(s) && !strings.Contains(s.Lock.Wakes, "tracking") {
		return "no message tells its waiters"
	}
	return ""
}

// subscribes reports whether its waiters subscribe when they have found the lock held, and then look once more.
func subscribes(s Scheme) bool { return strings.Contains(s.Lock.Wakes, "pub/sub") }

func lostUnlockMessage(s *setup) observed {
	a := s.client("A")
	proxy := s.lockProxies()[0]
	b := s.client("B")
	looks := 1
	if subscribes(s.scheme) {
		looks = 2
	}
	lease := time.Now()
	a.buyUntil(s.item(0), step.BeforeWrite)
	b.buy(s.item(0), slices.Repeat([]step.Point{at(step.Waiting)}, looks)...)
	for range looks - 1 {
		b.reaches(step.Waiting)
		b.goOn()
	}
	b.reaches(step.Waiting)
	proxy.DropMessages() // b knows by now how long the lease lasts
	b.goOn()
	a.finish()
	b.op.began = time.Now() // until now a was at work
	kept := s.keptOut(b, lease)
	switch kept {
	case result.NeverIn:
		return s.saw(kept, "the waiter waits for a message that does not come")
	case result.LeaseRanOut:
		return s.saw(kept, "the waiter looks again when the lease that it was told of has run out")
	}
	return s.saw(kept, "the waiter looks by itself now and then")
}

func partitionHeals(s *setup) observed {
	b := s.client("B")
	proxies := slices.Concat(s.ensembleProxies(), s.lockProxies(), []*wire.Proxy{s.marketProxy()})
	a := s.client("A")
	start := time.Now()
	a.buyUntil(s.item(0), step.BeforeWrite)
	for _, p := range proxies {
		p.Partition()
	}
	a.goOn()
	b.buy(s.item(0))
	kept := s.keptOut(b, start)
	for _, p := range proxies {
		p.Heal()
	}
	first := a.ends()
	if first.Unknown() { // it gave up; what it sent arrives all the same
		s.wait(s.ttl / 2)
	}
	return s.tookOver(first, b, kept)
}

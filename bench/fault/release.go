package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
)

// lostRelease loses the reply to each command of a release in turn. What the client sends after that is held until
// another has got in, or has been kept out for a while: whose lock does it free?
func lostRelease(s *setup) observed {
	b, c := s.client("B"), s.client("C")
	p := s.releaseProxies()
	a := s.client("A")
	commands, beside := p.rehearse(s, a), false
	all := observed{harm: result.NoHarm, kept: result.AtOnce, why: "sent again or not, the release frees no lock but its own"}
	for nth := 1; nth <= commands && all.kept != result.NeverIn; nth++ {
		in, one := releaseLost(s, p, nth, a, b, c)
		beside, all = beside || in, all.worst(one)
	}
	if p.ensemble {
		beside = takenAgain(s, p, a, c) || beside
	}
	return s.sawBeside(beside, all.kept, "the release is sent again and frees a lock that was taken since", all.why)
}

// releaseLost loses the reply to the nth command of a release. It reports whether two get in, and how long one is kept
// out.
func releaseLost(s *setup, p releaseProxies, nth int, a, b, c *client) (beside bool, one observed) {
	l, lease := s.spare(nth), time.Now()
	a.list(l, at(step.BeforeRelease))
	a.reaches(step.BeforeRelease)
	sendAgain := p.lose(nth)
	a.goOn()
	b.buy(l.Item, at(step.BeforeWrite))
	in, entered := b.held(s.ttl/4) == step.BeforeWrite, time.Now()
	sendAgain()
	a.ends()
	if in {
		beside = c.buyBeside(l.Item)
		s.checkInTime(entered)
		b.finish()
		c.finish()
		return beside, observed{harm: result.NoHarm, kept: result.AtOnce}
	}
	b.op.began = time.Now() // until now the holder was at its release
	one = observed{harm: result.NoHarm, why: "the lock stays, because its holder gives the release up"}
	one.kept = s.kept(b, lease, b.held(s.forGood()) == step.BeforeWrite)
	if b.release(doFree); one.kept != result.NeverIn {
		b.ends()
	}
	return false, one
}

// takenAgain loses the reply to a release, after which the same client takes the lock again. It reports whether another
// gets in beside it.
func takenAgain(s *setup, p releaseProxies, a, c *client) (beside bool) {
	l := s.spare(offered - 1)
	a.list(l, at(step.BeforeRelease))
	a.reaches(step.BeforeRelease)
	sendAgain := p.lose(1)
	a.goOn()
	c.buyAt(price+1, l.Item) // gets in when the release is applied, and is refused: the item stays
	c.ends()
	sendAgain()
	a.ends()
	start := time.Now()
	a.buyUntil(l.Item, step.BeforeWrite)
	beside = c.buyBeside(l.Item)
	s.checkInTime(start)
	a.finish()
	c.finish()
	return beside
}

// releaseProxies are between a client and the servers of its lock.
type releaseProxies struct {
	all      []*wire.Proxy
	ensemble bool // of ZooKeeper or etcd, whose commands they cannot read
}

// releaseProxies puts proxies between the clients to come and the servers of their lock. These clients send a command
// again that got no reply.
func (s *setup) releaseProxies() releaseProxies {
	s.config.Resend = true
	if all := s.ensembleProxies(); len(all) > 0 {
		return releaseProxies{all, true}
	}
	return releaseProxies{s.lockProxies(), false}
}

// rehearse lists an item and counts the commands that release its lock.
func (p releaseProxies) rehearse(s *setup, a *client) (commands int) {
	if p.ensemble {
		return 1
	}
	a.buy(s.item(0)) // loads the scripts
	a.ends()
	a.list(s.spare(0), at(step.BeforeRelease))
	a.reaches(step.BeforeRelease)
	p.all[0].Record()
	a.finish()
	commands = len(p.all[0].Commands())
	if commands == 0 || commands >= offered-1 {
		s.fail(fmt.Errorf("the rehearsal of a release took %d commands", commands))
	}
	return commands
}

// lose loses the reply to the nth command from now on, and holds what the client sends after that until sendAgain is
// called.
func (p releaseProxies) lose(nth int) (sendAgain func()) {
	if p.ensemble {
		for _, proxy := range p.all {
			proxy.SetFault(wire.Down, wire.Fault{Hold: true})
		}
		return func() {
			for _, proxy := range p.all {
				proxy.Cut()
				proxy.Heal()
			}
		}
	}
	var traps []*wire.Trap
	for _, proxy := range p.all {
		traps = append(traps, proxy.LoseReply(wire.Match{Nth: nth}), proxy.Hold(wire.Match{Nth: nth + 1}))
	}
	return func() {
		for _, t := range traps {
			t.Open()
		}
	}
}

package fault

import (
	"fmt"

	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/step"
)

func lostExecReply() Scenario {
	return Scenario{
		Name:  "lost-reply",
		Title: "the reply to the write (EXEC) is lost, and the caller tries again",
		play: func(s *Stage) (Verdict, string) {
			return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *Actor, item int) {
				if a.ends().Unknown() {
					a.buy(s.item(item))
					a.ends()
				}
			}, "whoever tries again looks first, and finds the item gone: bought once")
		},
	}
}

func resentExec() Scenario {
	return Scenario{
		Name:  "resent",
		Title: "the same with go-redis's default MaxRetries: the client sends the write again by itself",
		play: func(s *Stage) (Verdict, string) {
			s.cast.Resend = true
			return atEachWrite(s, (*wire.Proxy).LoseReply, func(a *Actor, _ int) { a.ends() },
				"a transaction is not sent again, and single writes set the same values again: bought once")
		},
	}
}

func cutMidPurchase() Scenario {
	return Scenario{
		Name:  "cut",
		Title: "the connection is cut in the middle of the purchase, before each of its writes",
		play: func(s *Stage) (Verdict, string) {
			return atEachWrite(s, (*wire.Proxy).LoseCommand, func(a *Actor, _ int) { a.ends() },
				"its writes are one transaction or script: all of them or none")
		},
	}
}

// atEachWrite rehearses a purchase to learn which commands write it, and makes one purchase for each of them in which that
// command meets with an accident.
func atEachWrite(s *Stage, accident func(*wire.Proxy, wire.Match) *wire.Trap, then func(a *Actor, item int), safe string,
) (Verdict, string) {
	proxy := s.marketLine()
	a := s.actor("A")
	writes := s.nth // of a subject that does not say when it writes: each of its commands in turn
	if s.Subject.Steps {
		writes = s.rehearse(proxy, a)
	} else {
		a.buy(s.item(0)) // connects, and loads scripts
		a.ends()
	}
	for n := max(1, s.nth); n <= writes && !s.failed(); n++ {
		if s.Subject.Steps {
			a.buy(s.item(n), Point{At: step.BeforeWrite})
			a.reaches(step.BeforeWrite)
		}
		trap := accident(proxy, wire.Match{Nth: n})
		if s.Subject.Steps {
			a.free()
		} else {
			a.buy(s.item(n))
		}
		then(a, n)
		trap.Open()
	}
	if verdict, what := s.count(); verdict != Safe {
		return verdict, what
	}
	return Safe, safe
}

// rehearse makes a purchase and counts the commands of its write.
func (s *Stage) rehearse(proxy *wire.Proxy, a *Actor) (writes int) {
	a.buy(s.item(0), Point{At: step.BeforeWrite}, Point{At: step.Written})
	a.reaches(step.BeforeWrite)
	if s.failed() {
		return 0
	}
	proxy.Record()
	a.goOn()
	a.reaches(step.Written)
	writes = len(proxy.Commands())
	a.free()
	a.ends()
	if !s.failed() && (writes == 0 || writes >= offered) {
		s.fail(fmt.Errorf("the rehearsal of a purchase wrote with %d commands", writes))
	}
	return writes
}

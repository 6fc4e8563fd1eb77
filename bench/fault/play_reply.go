package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/lock"
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
				"nothing of it is done twice: go-redis sends no transaction again, and single writes of the same values do no harm")
		},
	}
}

func cutMidPurchase() Scenario {
	return Scenario{
		Name:  "cut",
		Title: "the connection is cut in the middle of the purchase, before each of its writes",
		play: func(s *Stage) (Verdict, string) {
			return atEachWrite(s, (*wire.Proxy).LoseCommand, func(a *Actor, _ int) { a.ends() },
				"its writes are one transaction: all of them or none")
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

func lostAcquireReply() Scenario {
	return Scenario{
		Name:    "lost-acquire",
		Title:   "the reply to the command that takes the lock is lost",
		Applies: needsRedisLock,
		play: func(s *Stage) (Verdict, string) {
			b := s.actor("B")
			lines := s.lockLines()
			a := s.actor("A")
			commands := s.rehearseLock(lines, a)
			verdict, why := Safe, "it gives back what it may have taken: others get in at once"
			for n := 1; n <= commands && !s.failed(); n++ {
				traps := armed(lines, n)
				a.buy(s.item(n))
				a.ends()
				disarm(traps)
				if v, w := s.getsInAfterLoss(b, n); worse(v, verdict) {
					verdict, why = v, w
				}
				if verdict == StuckForGood {
					break
				}
			}
			if bad, what := s.count(); worse(bad, verdict) {
				return bad, what
			}
			return verdict, why
		},
	}
}

func resentAcquire() Scenario {
	return Scenario{
		Name:    "resent-acquire",
		Title:   "the same with go-redis's default MaxRetries: the client asks for the lock again by itself",
		Applies: needsRedisLock,
		play: func(s *Stage) (Verdict, string) {
			b := s.actor("B")
			s.cast.Resend = true
			lines := s.lockLines()
			a := s.actor("A")
			commands := s.rehearseLock(lines, a)
			verdict, why := Safe, "what is asked again is answered rightly, or no single command is asked again"
			for n := 1; n <= commands && verdict != StuckForGood && !s.failed(); n++ {
				traps := armed(lines, n)
				start := time.Now()
				a.buy(s.item(n))
				_, in := a.endsWithin(s.endless())
				switch {
				case !in:
					verdict, why = StuckForGood, "it finds the lock taken, by itself, and waits for good"
				case time.Since(start) > s.waited():
					verdict, why = StuckForTTL, "it finds the lock taken, by itself, and waits for its own lease to run out"
				}
				disarm(traps)
				if verdict == Safe {
					if v, _ := s.getsInAfterLoss(b, n); v != Safe {
						verdict, why = v, "what it asked for twice counts twice, and is given back once"
					}
				}
			}
			if bad, what := s.count(); worse(bad, verdict) {
				return bad, what
			}
			return verdict, why
		},
	}
}

// armed makes each line lose the reply to its n-th command from now on.
func armed(lines []*wire.Proxy, n int) []*wire.Trap {
	traps := make([]*wire.Trap, len(lines))
	for i, l := range lines {
		traps[i] = l.LoseReply(wire.Match{Nth: n})
	}
	return traps
}

func disarm(traps []*wire.Trap) {
	for _, t := range traps {
		t.Open()
	}
}

// rehearseLock makes a purchase and counts the commands that take its lock.
func (s *Stage) rehearseLock(lines []*wire.Proxy, a *Actor) (commands int) {
	a.buy(s.item(0)) // loads the scripts
	a.ends()
	if s.failed() {
		return 0
	}
	lines[0].Record()
	a.buy(s.item(offered-1), Point{At: step.Acquired})
	a.reaches(step.Acquired)
	commands = len(lines[0].Commands())
	a.free()
	a.ends()
	if !s.failed() && (commands == 0 || commands >= offered-1) {
		s.fail(fmt.Errorf("the rehearsal of an acquisition took %d commands", commands))
	}
	return commands
}

// getsInAfterLoss lets another buy the item whose lock's reply was lost.
func (s *Stage) getsInAfterLoss(b *Actor, item int) (Verdict, string) {
	start := time.Now()
	b.buy(s.item(item))
	_, in := b.endsWithin(s.endless())
	switch {
	case !in:
		return StuckForGood, "the lock is taken, and nobody knows that it has it"
	case time.Since(start) > s.waited():
		return StuckForTTL, "the lock is taken, and nobody knows: others get in when it has run out"
	}
	return Safe, ""
}

// needsRedisLock keeps out whoever has no lock, or one whose commands a proxy cannot read.
func needsRedisLock(s Subject) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if s.Lock.Needs == lock.NeedsZooKeeper || s.Lock.Needs == lock.NeedsEtcd {
		return "it is not taken by a command of Redis"
	}
	return ""
}

package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

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
			verdict, why := Safe, "asked for twice, the lock is held once: it is given back with the release"
			for n := 1; n <= commands && verdict != StuckForGood && !s.failed(); n++ {
				traps := armed(lines, n)
				start := time.Now()
				a.buy(s.item(n))
				_, in := a.endsWithin(s.endless())
				switch {
				case !in:
					verdict, why = StuckForGood, "it finds the lock taken, by itself, and waits for good"
				case s.outlasted(time.Since(start)):
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
	case s.outlasted(time.Since(start)):
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

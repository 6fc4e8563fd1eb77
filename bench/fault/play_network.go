package fault

import (
	"strings"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

func lostUnlockMessage() Scenario {
	return Scenario{
		Name:    "lost-message",
		Title:   "the message that tells of the release is lost",
		Applies: needsMessages,
		play: func(s *Stage) (Verdict, string) {
			a := s.actor("A")
			line := s.lockLines()[0]
			b := s.actor("B")
			a.buy(s.item(0), Point{At: step.BeforeWrite})
			a.reaches(step.BeforeWrite)
			b.buy(s.item(0), Point{At: step.Waiting}, Point{At: step.Waiting})
			b.reaches(step.Waiting) // it subscribes then, and looks once more when it has
			b.goOn()
			b.reaches(step.Waiting)
			told := time.Now() // b knows by now how long the lease lasts
			if s.failed() {
				return "", ""
			}
			line.Deafen()
			b.goOn()
			a.goOn()
			a.ends()
			start := time.Now()
			if start.Sub(told) > s.ttl/5 {
				s.fail(errLate)
			}
			_, in := b.endsWithin(s.endless())
			if bad, what := s.count(); bad != Safe {
				return bad, what
			}
			switch {
			case !in:
				return StuckForGood, "the waiter waits for a message that does not come"
			case s.outlasted(time.Since(start)):
				return StuckForTTL, "the waiter looks again when the lease that it was told of has run out"
			}
			return Safe, "the waiter looks by itself now and then"
		},
	}
}

// needsMessages keeps locks out whose waiters wait for no message of Redis.
func needsMessages(s Subject) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if !strings.Contains(s.Lock.Wakes, "pub/sub") {
		return "no message tells its waiters"
	}
	return ""
}

func partitionHeals() Scenario {
	return Scenario{
		Name:  "partition",
		Title: "a partition cuts the holder off as it writes, another takes over, the partition heals and the write arrives",
		play:  latePacket,
	}
}

func latePacket(s *Stage) (Verdict, string) {
	b := s.actor("B")
	lines := s.otherLines()
	proxies := append(s.lockLines(), s.marketLine())
	a := s.actor("A")
	a.buy(s.item(0), Point{At: step.BeforeWrite})
	a.reaches(step.BeforeWrite)
	if s.failed() {
		return "", ""
	}
	for _, p := range proxies {
		p.Partition()
	}
	for _, l := range lines {
		l.Partition()
	}
	a.goOn()
	b.buy(s.item(0))
	second, in := b.endsWithin(s.lasting())
	for _, l := range lines {
		l.Heal()
	}
	for _, p := range proxies {
		p.Heal()
	}
	first := a.ends()
	if first.Unknown() { // it gave up; what it sent arrives all the same
		s.pass(s.ttl / 2)
	}
	if !in {
		b.ends()
	}
	return s.tookOver(first, second, in)
}

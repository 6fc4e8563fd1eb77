package fault

import (
	"time"

	"github.com/marketsim/marketsim/market"

	"github.com/marketsim/marketsim/strategies/step"
)

func readerLeaves() Scenario {
	return Scenario{
		Name:    "reader-leaves",
		Promise: "shared",
		Title:   "two readers share the lock; one leaves: is the other still protected from writers?",
		Applies: needsShared,
		play: func(s *Stage) (Verdict, string) {
			first := besideReader(s, s.item(0), func(first, _ *Actor) *Actor { return first })
			last := besideReader(s, s.item(1), func(_, last *Actor) *Actor { return last })
			switch {
			case first && last:
				return TwoHolders, "a writer enters beside the reader who stays"
			case first:
				return TwoHolders, "when the reader who came first leaves, a writer enters beside the other"
			case last:
				return TwoHolders, "when the reader who came last leaves, a writer enters beside the other"
			}
			return Safe, "a writer waits for the last reader, whoever leaves first"
		},
	}
}

// besideReader lets two readers in and one of them leave, and reports whether a writer gets in beside the other.
func besideReader(s *Stage, item market.ItemID, leaver func(first, last *Actor) *Actor) bool {
	one, two, writer := s.actor("A"), s.actor("B"), s.actor("C")
	start := time.Now()
	one.look(item, Point{At: step.Acquired})
	one.reaches(step.Acquired)
	s.pass(2 * time.Millisecond) // a lock that tells readers apart by their millisecond is to see two
	two.look(item, Point{At: step.Acquired})
	two.reaches(step.Acquired)
	leaves := leaver(one, two)
	leaves.goOn()
	leaves.ends()
	in := writerEnters(s, writer, item, start)
	one.free()
	two.free()
	one.ends()
	two.ends()
	writer.free()
	writer.ends()
	return in
}

// writerEnters reports whether a buyer gets in before any lease since start has run out.
func writerEnters(s *Stage, writer *Actor, item market.ItemID, start time.Time) bool {
	writer.buy(item, Point{At: step.Waiting}, Point{At: step.BeforeWrite})
	in := writer.enters()
	s.prompt(start)
	return in
}

func readerFreesAnother() Scenario {
	return Scenario{
		Name:    "reader-late",
		Needs:   "Unix signals",
		Promise: "owner-only release",
		Title:   "a reader pauses past its TTL, another enters, the first wakes and leaves: whose entry goes?",
		Applies: needsShared,
		play: func(s *Stage) (Verdict, string) {
			one, two, writer := s.actor("A"), s.actor("B"), s.actor("C")
			one.look(s.item(0), Point{At: step.Acquired})
			one.reaches(step.Acquired)
			one.stop()
			s.pass(s.ttl + s.ttl/4)
			start := time.Now()
			two.look(s.item(0), Point{At: step.Acquired})
			two.reaches(step.Acquired)
			one.wake()
			one.goOn()
			one.ends()
			in := writerEnters(s, writer, s.item(0), start)
			two.free()
			two.ends()
			writer.free()
			writer.ends()
			if in {
				return TwoHolders, "the late reader freed the other's entry: a writer enters beside it"
			}
			return Safe, "the late reader frees its own entry only"
		},
	}
}

// needsShared keeps locks out that nobody can share.
func needsShared(s Subject) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if !s.Lock.Shares {
		return "it cannot be shared"
	}
	return ""
}

package fault

import (
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

func pausePastTTL() Scenario {
	return Scenario{
		Name:  "pause",
		Needs: "Unix signals",
		Title: "the holder pauses past its TTL, another takes over, the holder wakes and writes",
		play:  func(s *Stage) (Verdict, string) { return takenOver(s, (*Actor).stop, (*Actor).wake) },
	}
}

func stuckRenewing() Scenario {
	return Scenario{
		Name:  "stuck-goroutine",
		Title: "the holder's work is stuck while its process, and its watchdog, run on; then it writes",
		play: func(s *Stage) (Verdict, string) {
			return takenOver(s, func(*Actor) {}, func(*Actor) {})
		},
	}
}

// takenOver holds a buyer just before it writes, lets another buy the same item, and lets the first go on.
func takenOver(s *Stage, suspend, resume func(*Actor)) (Verdict, string) {
	a, b := s.actor("A"), s.actor("B")
	a.buy(s.item(0), Point{At: step.BeforeWrite})
	a.reaches(step.BeforeWrite)
	suspend(a)
	b.buy(s.item(0))
	second, in := b.endsWithin(s.lasting())
	resume(a)
	a.goOn()
	first := a.ends()
	if !in {
		b.ends()
	}
	return s.tookOver(first, second, in)
}

// tookOver tells what came of a second buyer who tried while the first was out of touch; in says that it got an answer
// before the first was back.
func (s *Stage) tookOver(first, second Outcome, in bool) (Verdict, string) {
	bad, what := s.count()
	switch {
	case bad != Safe:
		return bad, what
	case !in && s.Subject.Expires:
		return StuckForGood, "its lease is renewed as long as its process lives: nobody else gets in"
	case !in:
		return Safe, "nobody else gets in before the holder is done, however long that takes"
	case first.Reason == "stale":
		return Safe, "another took over; the market refused the late write as stale"
	case second.Applied() && !first.Applied():
		return Safe, "another took over, and the late write was refused (" + first.Reason + ")"
	}
	return Safe, "the second buyer was refused (" + second.Reason + ")"
}

func pauseThenRelease() Scenario {
	return Scenario{
		Name:    "pause-release",
		Needs:   "Unix signals",
		Promise: "owner-only release",
		Title:   "the holder pauses past its TTL, another takes over, the holder wakes and releases: whose lock goes?",
		Applies: needsLock,
		play: func(s *Stage) (Verdict, string) {
			return releasedLate(s, Point{At: step.BeforeRelease})
		},
	}
}

func pauseInRelease() Scenario {
	return Scenario{
		Name:    "pause-in-release",
		Needs:   "Unix signals",
		Promise: "owner-only release",
		Title:   "the same, but the holder pauses inside its release, after it looked whose the lock is",
		Applies: needsLock,
		play: func(s *Stage) (Verdict, string) {
			return releasedLate(s, Point{At: step.Looked, After: step.BeforeRelease})
		},
	}
}

// releasedLate pauses a seller's listing on its way out. A buyer takes the item's lock meanwhile, and is held in its
// critical section; the seller wakes and releases; if that was the buyer's lock, one more buyer gets in.
func releasedLate(s *Stage, where Point) (Verdict, string) {
	a, b, c := s.actor("A"), s.actor("B"), s.actor("C")
	a.list(s.unlisted(), where)
	item := s.unlisted().Item
	if a.held(patience) == "" && !s.failed() {
		return NotApplicable, "it releases in one command"
	}
	a.stop()
	b.buy(item, Point{At: step.BeforeWrite})
	in := b.held(s.endless()) == step.BeforeWrite
	entered := time.Now()
	a.wake()
	a.goOn()
	told := a.ends()
	if !in {
		b.reaches(step.BeforeWrite)
		b.goOn()
		b.ends()
		if bad, what := s.count(); bad != Safe {
			return bad, what
		}
		return Safe, "nobody gets in before the holder has released"
	}
	c.buy(item, Point{At: step.Waiting}, Point{At: step.BeforeWrite})
	two := c.enters()
	s.prompt(entered)
	b.goOn()
	b.ends()
	c.free()
	c.ends()
	return released(s, two, told)
}

// released tells what the late release came to.
func released(s *Stage, two bool, told Outcome) (Verdict, string) {
	bad, what := s.count()
	switch {
	case bad != Safe:
		return bad, "its late release freed the next holder's lock: " + what
	case two:
		return TwoHolders, "its late release freed the next holder's lock; the market refused the second write"
	case told.LeaseLost:
		return Safe, "its late release finds the lock not its own, and says so"
	}
	return Safe, "its late release leaves the next holder's lock alone"
}

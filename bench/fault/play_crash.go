package fault

import (
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

func crashHalfTaken() Scenario {
	return Scenario{
		Name:    "crash-half-taken",
		Promise: "survives a crash",
		Title:   "the holder dies between SETNX and EXPIRE",
		Applies: needsLock,
		play: func(s *Stage) (Verdict, string) {
			a, b := s.actor("A"), s.actor("B")
			start := time.Now()
			a.buy(s.item(0), Point{At: step.Half}, Point{At: step.BeforeWrite})
			if at := a.held(patience); at != step.Half && !s.failed() {
				return NotApplicable, "it does not take its lock with SETNX and EXPIRE"
			}
			verdict, why := afterDeath(s, a, b, start)
			if verdict == StuckForTTL {
				why = "a waiter who finds no expiry sets one, and others get in when it has run out"
			}
			return verdict, why
		},
	}
}

func crashHolding() Scenario {
	return Scenario{
		Name:    "crash-holding",
		Promise: "survives a crash",
		Title:   "the holder dies in the critical section",
		play: func(s *Stage) (Verdict, string) {
			a, b := s.actor("A"), s.actor("B")
			start := time.Now()
			a.buy(s.item(0), Point{At: step.BeforeWrite})
			a.reaches(step.BeforeWrite)
			return afterDeath(s, a, b, start)
		},
	}
}

// afterDeath kills the holder, whose lease began after start, and sees when the next one gets in.
func afterDeath(s *Stage, holder, next *Actor, start time.Time) (Verdict, string) {
	holder.kill()
	if time.Since(start) > s.ttl/4 {
		s.fail(errLate) // too little of the lease is left to tell waiting for its end from getting in at once
	}
	verdict, why := getsIn(s, next)
	if bad, what := s.count(); worse(bad, verdict) {
		return bad, what
	}
	return verdict, why
}

// getsIn lets a client buy what somebody's lock may still cover, and says how long that kept it out.
func getsIn(s *Stage, a *Actor) (Verdict, string) {
	start := time.Now()
	a.buy(s.item(0))
	_, in := a.endsWithin(s.endless())
	switch {
	case !in:
		return StuckForGood, "nobody gets in: nothing gives the dead holder's lock back"
	case time.Since(start) > s.waited() && s.Subject.Lock == nil && s.Subject.Steps:
		s.fail(errLate) // there is nothing to wait for
	case time.Since(start) > s.waited():
		return StuckForTTL, "others get in when the dead holder's lease has run out"
	case s.Subject.Lock == nil && s.Subject.Steps:
		return Safe, "it holds no lock that could be left behind"
	}
	return Safe, "others get in at once"
}

// needsLock keeps strategies without a lock out.
func needsLock(s Subject) string {
	if s.Lock == nil {
		return "it takes no lock of marketsim's"
	}
	return ""
}

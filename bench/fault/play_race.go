package fault

import (
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// racers is how many wait for the same lock.
const racers = 4

func expiredRace() Scenario {
	return Scenario{
		Name:    "expired-race",
		Promise: "exclusive",
		Title:   "several waiters race for a lock whose holder died (or, if it never expires, has released it)",
		Applies: needsLock,
		play:    raceForIt,
	}
}

func raceForIt(s *Stage) (Verdict, string) {
	holder := s.actor("A")
	waiting := make([]*Actor, racers)
	for i := range waiting {
		waiting[i] = s.actor(string(rune('B' + i)))
	}
	item := s.unlisted().Item
	holder.list(s.unlisted(), Point{At: step.BeforeRelease})
	holder.reaches(step.BeforeRelease)
	for _, w := range waiting {
		w.buy(item, Point{At: step.Looked}, Point{At: step.BeforeWrite})
	}
	if s.Subject.Expires {
		holder.kill()
	} else {
		holder.goOn()
		holder.ends()
	}
	inside := enter(s, waiting)
	for _, w := range waiting { // whoever is inside writes, and the rest come after
		w.free()
	}
	for _, w := range waiting {
		w.ends()
	}
	bad, what := s.count()
	switch {
	case bad != Safe:
		return bad, "two who look at the same time both take it: " + what
	case inside > 1:
		return TwoHolders, "two who look at the same time both take it; the market refused the second write"
	}
	return Safe, "one of them gets it"
}

// enter holds those who only look until everybody has who would, lets them act on what they saw, and says how many are
// inside at the same time then.
func enter(s *Stage, waiting []*Actor) (inside int) {
	at := make([]step.Name, len(waiting))
	gather := func(first time.Duration) {
		for limit := time.Now().Add(first); time.Now().Before(limit) && !s.failed(); {
			for i, w := range waiting {
				if at[i] != "" {
					continue
				}
				if at[i] = w.held(5 * time.Millisecond); at[i] != "" {
					limit = time.Now().Add(TTL / 4) // the others come as soon, or not at all
				}
			}
		}
	}
	gather(s.endless())
	start := time.Now()
	for i, w := range waiting {
		if at[i] == step.Looked {
			at[i] = ""
			w.goOn()
		}
	}
	gather(TTL / 4)
	s.prompt(start)
	for i := range at {
		if at[i] == step.BeforeWrite {
			inside++
		}
	}
	return inside
}

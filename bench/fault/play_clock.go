package fault

import (
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// wrong is how wrong a clock is.
const wrong = 30 * time.Second

func clockAhead() Scenario {
	return Scenario{
		Name:    "clock-ahead",
		Promise: "clock-independent",
		Title:   "one client's clock is 30 s ahead",
		Applies: readsClock,
		play:    func(s *Stage) (Verdict, string) { return skewed(s, wrong) },
	}
}

func clockBehind() Scenario {
	return Scenario{
		Name:    "clock-behind",
		Promise: "clock-independent",
		Title:   "one client's clock is 30 s behind",
		Applies: readsClock,
		play:    func(s *Stage) (Verdict, string) { return skewed(s, -wrong) },
	}
}

// readsClock keeps out those whose clock a scenario cannot set.
func readsClock(s Subject) string {
	if s.Lock == nil && !s.Steps {
		return "whether it reads a clock is not known"
	}
	if s.Lock == nil {
		return "it reads no clock"
	}
	if s.Lock.OwnClock {
		return "it reads its process's clock, which cannot be set for one process"
	}
	return ""
}

// skewed lets the client with the wrong clock try the lock that another holds, and the other way round.
func skewed(s *Stage, by time.Duration) (Verdict, string) {
	right := s.actor("A")
	s.cast.Clock = by
	off := s.actor("B")
	intruded := intrudes(s, right, off, 0)
	beset := intrudes(s, off, right, 1)
	bad, what := s.count()
	why := "nobody gets in beside a holder"
	switch {
	case intruded && beset:
		why = "it enters beside others, and others beside it"
	case intruded:
		why = "it takes a lock that others hold"
	case beset:
		why = "others take the lock that it holds"
	}
	if bad != Safe {
		return bad, why + ": " + what
	}
	if intruded || beset {
		return TwoHolders, why
	}
	return Safe, why
}

// intrudes reports whether a client gets in beside the holder.
func intrudes(s *Stage, holder, other *Actor, item int) bool {
	start := time.Now()
	holder.buy(s.item(item), Point{At: step.BeforeWrite})
	holder.reaches(step.BeforeWrite)
	other.buy(s.item(item), Point{At: step.Waiting}, Point{At: step.BeforeWrite})
	in := other.enters()
	s.prompt(start)
	holder.goOn()
	holder.ends()
	other.free()
	other.ends()
	return in
}

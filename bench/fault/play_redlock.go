package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// redlockDown is n of Redlock's five masters down.
func redlockDown(n int) Scenario {
	words := []string{"", "one", "two", "three"}
	promise := "survives node loss" // of a minority
	if n > 2 {
		promise = ""
	}
	return Scenario{
		Name:    fmt.Sprintf("redlock-%d-down", n),
		Promise: promise,
		Title:   words[n] + " of Redlock's five masters down",
		Needs:   "redis-server",
		Applies: needsMasters,
		play: func(s *Stage) (Verdict, string) {
			a, b := s.actor("A"), s.actor("B")
			for i := range n {
				s.do(func() error { return s.masters.Kill(i) })
			}
			start := time.Now()
			a.buy(s.item(0), Point{At: step.BeforeWrite})
			if a.held(s.endless()) == "" && !s.failed() {
				return StuckForGood, "no majority is left: nobody gets in until a master is back"
			}
			b.buy(s.item(0), Point{At: step.Waiting}, Point{At: step.BeforeWrite})
			in := b.enters()
			s.prompt(start)
			a.goOn()
			a.ends()
			b.free()
			b.ends()
			bad, what := s.count()
			if bad != Safe {
				return bad, what
			}
			if in {
				return TwoHolders, "two held it at the same time"
			}
			return Safe, "a majority is left: one gets in at a time"
		},
	}
}

func redlockRestart() Scenario {
	return Scenario{
		Name:    "redlock-restart",
		Title:   "a Redlock master on which the lock was taken restarts empty, two that were down return",
		Needs:   "redis-server",
		Lease:   long,
		Applies: needsMasters,
		play: func(s *Stage) (Verdict, string) {
			s.do(func() error { return s.masters.Kill(3) })
			s.do(func() error { return s.masters.Kill(4) })
			return besideHolder(s, func() { // it holds masters 0, 1 and 2
				for _, i := range []int{2, 3, 4} {
					s.do(func() error { return s.masters.Restart(s.ctx, i) })
				}
			}, "one master forgot, so another majority was free: another gets in beside the holder")
		},
	}
}

// do does something to the servers unless the stage has failed.
func (s *Stage) do(what func() error) {
	if !s.failed() {
		s.fail(what())
	}
}

// needsMasters keeps out all but locks on several masters.
func needsMasters(s Subject) string {
	if s.Lock == nil || s.Lock.Needs != lock.NeedsMasters {
		return "its lock is not on several masters"
	}
	return ""
}

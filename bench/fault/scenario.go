package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// A Scenario is a bad day: who does what, and what fails at which point.
type Scenario struct {
	Name  string // as on the command line
	Title string // one line
	// Applies says why it cannot happen to a subject; empty if it can, as far as is known beforehand. Nil: to all.
	Applies func(Subject) string
	// Needs is what it starts besides a Redis: shown to users.
	Needs string
	// Lease is how long locks last in it; 0 means TTL.
	Lease time.Duration
	// Promise names the promise of a lock, as in lock.Promises.List, that says that it survives this; empty: none does.
	Promise string
	play    func(*Stage) (Verdict, string)
}

// All lists the scenarios in the order in which they are shown.
func All() []Scenario {
	return []Scenario{
		crashHalfTaken(),
		crashHolding(),
		pausePastTTL(),
		pauseThenRelease(),
		pauseInRelease(),
		stuckRenewing(),
		expiredRace(),
		clockAhead(),
		clockBehind(),
		restartedEmpty(),
		redlockDown(1),
		redlockDown(2),
		redlockDown(3),
		redlockRestart(),
		readerLeaves(),
		readerFreesAnother(),
	}
}

// plays bounds how often a scenario is played again because the machine was late.
const plays = 5

// Play plays a scenario with a subject. An error means that the environment failed, not the subject.
func (l *Lab) Play(ctx context.Context, sc Scenario, subject Subject) (Finding, error) {
	f := Finding{Scenario: sc.Name, Subject: subject.Name, Verdict: NotApplicable}
	if sc.Applies != nil {
		if f.Why = sc.Applies(subject); f.Why != "" {
			return f, nil
		}
	}
	var err error
	for range plays {
		stage := newStage(ctx, l, subject, cmp.Or(sc.Lease, TTL))
		if !stage.failed() {
			f.Verdict, f.Why = sc.play(stage)
		}
		if err = stage.close(); !errors.Is(err, errLate) {
			break
		}
	}
	if err != nil && errors.Is(err, backend.ErrUnavailable) && ctx.Err() == nil {
		f.Verdict, f.Why = Unavailable, oneLine(err)
		return f, nil
	}
	if err != nil {
		return Finding{}, fmt.Errorf("scenario %s with %s: %w", sc.Name, subject.Name, err)
	}
	f.Broken = sc.broken(subject, f.Verdict)
	return f, nil
}

// broken names the promise that a verdict breaks.
func (sc Scenario) broken(subject Subject, v Verdict) string {
	if sc.Promise == "" || !v.Harm() && v != StuckForGood {
		return ""
	}
	for _, p := range subject.Promises.List() {
		if p.Name == sc.Promise && p.Made {
			return p.Name
		}
	}
	return ""
}

package fault

import (
	"context"
	"errors"
	"fmt"

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
	play  func(*Stage) (Verdict, string)
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
		stage := newStage(ctx, l, subject)
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
	return f, nil
}

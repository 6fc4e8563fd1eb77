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
		lostAcquireReply(),
		resentAcquire(),
		lostExecReply(),
		resentExec(),
		cutMidPurchase(),
		lostUnlockMessage(),
		partitionHeals(),
		restartedEmpty(),
		failover(),
		redlockDown(1),
		redlockDown(2),
		redlockDown(3),
		redlockRestart(),
		sessionExpires(),
		leaderKilled(),
		readerLeaves(),
		readerFreesAnother(),
	}
}

// plays bounds how often a scenario is played again because the machine was late.
const plays = 10

// Play plays a scenario with a subject. An error means that the environment failed, not the subject.
func (l *Lab) Play(ctx context.Context, sc Scenario, subject Subject) (Finding, error) {
	f := Finding{Scenario: sc.Name, Subject: subject.Name, Verdict: NotApplicable}
	if sc.Applies != nil {
		if f.Why = sc.Applies(subject); f.Why != "" {
			return f, nil
		}
	}
	f, err := l.play(ctx, sc, subject, f)
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

// play plays a scenario; with a subject that does not say where it is once for each command of its purchase, at which it
// is held. The worst is told.
func (l *Lab) play(ctx context.Context, sc Scenario, subject Subject, f Finding) (Finding, error) {
	if subject.Steps {
		verdict, why, err := l.playOnce(ctx, sc, subject, 0)
		f.Verdict, f.Why = verdict, why
		return f, err
	}
	commands, err := l.commands(ctx, subject)
	for n := 1; n <= len(commands) && err == nil; n++ {
		var verdict Verdict
		var why string
		if verdict, why, err = l.playOnce(ctx, sc, subject, n); err == nil && worse(verdict, f.Verdict) {
			f.Verdict, f.Why = verdict, why
		}
	}
	return f, err
}

// commands rehearses a purchase of a subject that does not say where it is.
func (l *Lab) commands(ctx context.Context, subject Subject) (names []string, err error) {
	s := newStage(ctx, l, subject, TTL)
	a := s.actor("A")
	for _, item := range []int{0, 1} { // the first may load scripts
		if a.line != nil {
			a.line.Record()
		}
		a.buy(s.item(item))
		a.ends()
	}
	if a.line != nil {
		names = a.line.Commands()
	}
	if !s.failed() && (len(names) == 0 || len(names) >= offered) {
		s.fail(fmt.Errorf("the rehearsal of a purchase took %d commands", len(names)))
	}
	return names, s.close()
}

// playOnce plays a scenario, again if the machine was late.
func (l *Lab) playOnce(ctx context.Context, sc Scenario, subject Subject, nth int) (v Verdict, why string, err error) {
	for range plays {
		stage := newStage(ctx, l, subject, cmp.Or(sc.Lease, TTL))
		stage.nth = nth
		if !stage.failed() {
			v, why = sc.play(stage)
		}
		if err = stage.close(); !errors.Is(err, errLate) {
			break
		}
	}
	return v, why, err
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

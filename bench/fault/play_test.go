package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// staged is a scenario of a test's own.
func staged(play func(*Stage) (Verdict, string)) Scenario {
	return Scenario{Name: "staged", Title: "a test's own", play: play}
}

// TestLatePlaysAreRepeated: a machine that was too slow is no finding.
func TestLatePlaysAreRepeated(t *testing.T) {
	lab := openLab(t)
	for _, c := range []struct{ late, played int }{{0, 1}, {plays - 1, plays}, {plays, plays}} {
		played := 0
		f, err := lab.Play(t.Context(), staged(func(s *Stage) (Verdict, string) {
			if played++; played <= c.late {
				s.fail(errLate)
				return SoldTwice, "late"
			}
			return Safe, "in time"
		}), subject(t, "watch"))
		if played != c.played {
			t.Errorf("late %d times, played %d, want %d", c.late, played, c.played)
		}
		if c.late < plays && (err != nil || f.Why != "in time") {
			t.Errorf("late %d times: %+v, %v", c.late, f, err)
		}
		if c.late == plays && !errors.Is(err, errLate) {
			t.Errorf("always late: %+v, %v; want errLate", f, err)
		}
	}
}

// nobody is a subject that no child knows.
type nobody struct{}

func (nobody) String() string { return "nobody" }
func (nobody) Open(strategies.Env) (market.Purchaser, io.Closer, error) {
	return nil, nil, errors.New("not opened in the parent")
}

func TestSubjectThatCannotBeOpened(t *testing.T) {
	f, err := openLab(t).Play(t.Context(), crashHolding(), Outside(nobody{}))
	if err == nil || !strings.Contains(err.Error(), `client A: invalid strategy "nobody"`) || f != (Finding{}) {
		t.Errorf("%+v, %v; want the child's own words", f, err)
	}
}

// TestClientThatDies of itself is the environment's failure, and says nothing of the subject.
func TestClientThatDies(t *testing.T) {
	_, err := openLab(t).Play(t.Context(), staged(func(s *Stage) (Verdict, string) {
		a := s.actor("A")
		a.buy(s.item(0), Point{At: step.BeforeWrite})
		a.reaches(step.BeforeWrite)
		if err := a.child.Kill(); err != nil { // behind the actor's back
			t.Error(err)
		}
		a.ends()
		return Safe, "it died"
	}), subject(t, "watch"))
	if err == nil || !strings.Contains(err.Error(), "client A ended") {
		t.Errorf("%v, want that client A ended", err)
	}
}

func TestClientThatComesElsewhere(t *testing.T) {
	_, err := openLab(t).Play(t.Context(), staged(func(s *Stage) (Verdict, string) {
		a := s.actor("A")
		a.buy(s.item(0), Point{At: step.Half})
		a.reaches(step.Half)
		return Safe, "it got there"
	}), subject(t, "watch"))
	if err == nil || !strings.Contains(err.Error(), "(applied)") {
		t.Errorf("%v, want where it was and what it was told", err)
	}
}

// TestEnvironmentThatLacksSomething is told in the table; any other failure is an error.
func TestEnvironmentThatLacksSomething(t *testing.T) {
	lab := openLab(t)
	lacking := staged(func(s *Stage) (Verdict, string) {
		s.fail(fmt.Errorf("no such thing: %w\nmore of it", backend.ErrUnavailable))
		return SoldTwice, ""
	})
	f, err := lab.Play(t.Context(), lacking, subject(t, "watch"))
	if err != nil || f.Verdict != Unavailable || f.Why != "no such thing: "+backend.ErrUnavailable.Error() {
		t.Errorf("%+v, %v; want not played, and why in a line", f, err)
	}
}

// TestRunEndsWithTheFirstFailure keeps what was found until then.
func TestRunEndsWithTheFirstFailure(t *testing.T) {
	errFire := errors.New("fire")
	fails := staged(func(s *Stage) (Verdict, string) { s.fail(errFire); return Safe, "" })
	inapplicable := Scenario{Name: "inapplicable", Applies: func(Subject) string { return "never" }}
	var told []Finding
	found, err := openLab(t).Run(t.Context(), []Scenario{inapplicable, fails}, []Subject{subject(t, "watch")},
		func(f Finding) { told = append(told, f) })
	if !errors.Is(err, errFire) || len(found) != 1 || len(told) != 1 || found[0] != told[0] || found[0].Verdict != NotApplicable {
		t.Errorf("found %v, told %v, %v", found, told, err)
	}
}

// TestBrokenPromise: harm counts against a lock only if it had promised otherwise.
func TestBrokenPromise(t *testing.T) {
	promising := Subject{Promises: lock.Promises{Exclusive: true}}
	for _, c := range []struct {
		promise string
		subject Subject
		verdict Verdict
		want    string
	}{
		{"exclusive", promising, TwoHolders, "exclusive"},
		{"exclusive", promising, SoldTwice, "exclusive"},
		{"exclusive", promising, StuckForGood, "exclusive"},
		{"exclusive", promising, StuckForTTL, ""},
		{"exclusive", promising, Safe, ""},
		{"exclusive", promising, NotApplicable, ""},
		{"exclusive", promising, Unavailable, ""},
		{"exclusive", Subject{}, SoldTwice, ""},
		{"fair", promising, SoldTwice, ""},
		{"", promising, SoldTwice, ""},
	} {
		if got := (Scenario{Promise: c.promise}).broken(c.subject, c.verdict); got != c.want {
			t.Errorf("%+v: broken %q", c, got)
		}
	}
}

// TestCancelledPlay ends while a client is held, and another is stopped.
func TestCancelledPlay(t *testing.T) {
	lab := openLab(t)
	before := children(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := lab.Play(ctx, staged(func(s *Stage) (Verdict, string) {
		a, b := s.actor("A"), s.actor("B")
		for _, x := range []*Actor{a, b} {
			x.buy(s.item(0), Point{At: step.BeforeWrite})
			x.reaches(step.BeforeWrite)
		}
		a.stop()
		if n := children(t) - before; n != 2 {
			t.Errorf("%d child processes, want 2", n)
		}
		cancel()
		s.pass(patience)
		return SoldTwice, "nobody waited"
	}), subject(t, "watch"))
	if !errors.Is(err, context.Canceled) || f != (Finding{}) {
		t.Errorf("%+v, %v; want context.Canceled", f, err)
	}
	if n := children(t) - before; n != 0 {
		t.Errorf("%d child processes are left", n)
	}
}

// TestNothingIsLeft plays with servers of a stage's own, and looks for processes afterwards. Goroutines are looked for
// after all tests.
func TestNothingIsLeft(t *testing.T) {
	before := children(t)
	lab, err := OpenLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := lab.Run(t.Context(), []Scenario{restartedEmpty(), redlockDown(1), clockAhead()},
		[]Subject{subject(t, "set-px"), subject(t, "redlock")}, nil)
	if err := errors.Join(err, lab.Close()); err != nil || len(found) != 6 {
		t.Errorf("%v, %v", found, err)
	}
	if n := children(t) - before; n != 0 {
		t.Errorf("%d child processes are left", n)
	}
}

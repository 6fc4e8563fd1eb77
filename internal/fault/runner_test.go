package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// custom is a scenario of a test's own.
func custom(run func(*setup) observed) Scenario {
	return Scenario{Name: "custom", Title: "a test's own", run: func(s *setup) observed {
		s.noteFault(true, "")
		return run(s)
	}}
}

// withLeases is custom with leases of another length than TTL. Beside those of a minute, a
// machine that stands still for a moment does not matter.
func withLeases(length time.Duration, run func(*setup) observed) Scenario {
	sc := custom(run)
	sc.Lease = length
	return sc
}

// TestNothingArrived: where what a scenario makes fail is not seen to arrive,
// nothing was survived, and the cell says so.
func TestNothingArrived(t *testing.T) {
	r := startRunner(t)
	for why, run := range map[string]func(*setup){
		"nothing was seen to fail in it": func(s *setup) {
			a := s.client("A")
			a.buy(s.item(0))
			a.ends()
		},
		"no such command came": func(s *setup) {
			proxy := s.marketProxy()
			a := s.client("A")
			trap := proxy.LoseReply(wire.Match{Nth: 1000})
			a.buy(s.item(0))
			a.ends()
			s.spring(trap)
		},
	} {

		forgets := Scenario{Name: "forgets", run: func(s *setup) observed {
			run(s)
			return s.conclude(verify.NotAsked, "it is safe")
		}}

		f, err := r.runCell(t.Context(), cell{forgets, scheme(t, "watch")})
		if err != nil || f.Verdict != verify.NotApplicable || f.Why != why {
			t.Errorf("%+v, %v; want not applicable, because %q", f, err, why)
		}
	}
}

// clusterDown is what a node of a cluster answers that misses most of the others.
type clusterDown struct{}

func (clusterDown) Error() string { return "CLUSTERDOWN The cluster is down" }

func (clusterDown) RedisError() {}

// TestLateRunsAreRepeated: a machine that was too slow is no finding, nor is one whose
// cluster fell apart meanwhile.
func TestLateRunsAreRepeated(t *testing.T) {
	r := startRunner(t)
	for _, c := range []struct {
		late, runs int
		why        error
	}{
		{0, 1, nil},
		{attempts - 1, attempts, errLate},
		{attempts, attempts, errLate},
		{1, 2, clusterDown{}},
	} {
		runs := 0
		f, err := r.runCell(t.Context(), cell{withLeases(time.Minute, func(s *setup) observed {
			runs++
			if runs <= c.late {
				check(c.why)
				return observed{Harm: verify.SoldTwice, Why: "late"}
			}
			return observed{Harm: verify.NoHarm, Why: "in time"}
		}), scheme(t, "watch")})

		if runs != c.runs {
			t.Errorf("late %d times, run %d times, want %d", c.late, runs, c.runs)
		}
		if c.late < attempts && (err != nil || f.Why != "in time") {
			t.Errorf("late %d times: %+v, %v", c.late, f, err)
		}
		if c.late == attempts && !errors.Is(err, errLate) {
			t.Errorf("always late: %+v, %v; want errLate", f, err)
		}
	}
}

// TestNeverIsSeenTwice: a machine that was slow once does not make a lock one
// that is never free.
func TestNeverIsSeenTwice(t *testing.T) {
	r := startRunner(t)

	for _, c := range []struct {
		seen []verify.KeptOut
		want verify.KeptOut
	}{
		{[]verify.KeptOut{verify.NeverIn, verify.NeverIn}, verify.NeverIn},
		{[]verify.KeptOut{verify.NeverIn, verify.LeaseRanOut}, verify.LeaseRanOut},
		{[]verify.KeptOut{verify.AtOnce}, verify.AtOnce},
	} {
		left := c.seen
		f, err := r.runCell(t.Context(), cell{withLeases(time.Minute, func(*setup) observed {
			kept := left[0]
			left = left[1:]
			return observed{Harm: verify.NoHarm, KeptOut: kept, Why: "seen"}
		}), scheme(t, "watch")})
		if err != nil || f.KeptOut != c.want || len(left) != 0 {
			t.Errorf("%v: %+v, %v, %d runs fewer", c.seen, f, err, len(left))
		}
	}
}

// A lock that the children do not know ends its run with the error of the child.
func TestSchemeThatCannotBeOpened(t *testing.T) {
	c := withQuiet()
	kind := c.Locks[len(c.Locks)-1]
	kind.Name = "nobody" // no child knows it
	c.Locks = append(c.Locks, kind)
	nobody, err := SchemeOf(c, "nobody")
	if err != nil {
		t.Fatal(err)
	}

	f, err := startRunner(t).runCell(t.Context(), cell{named(t, "crash-holding"), nobody})
	says := `unknown lock "nobody"`
	if err == nil || !strings.Contains(err.Error(), says) || f.Verdict != verify.Stopped {
		t.Errorf("%+v, %v; want the child's own words", f, err)
	}
}

// TestClientThatDies of itself is the environment's failure, and says nothing
// about the scheme.
func TestClientThatDies(t *testing.T) {
	_, err := startRunner(t).runCell(t.Context(), cell{custom(func(s *setup) observed {
		a := s.client("A")
		a.buyUntil(s.item(0), step.BeforeWrite)
		if err := a.process.Kill(); err != nil { // behind the client's back
			t.Error(err)
		}
		a.ends()
		return observed{Harm: verify.NoHarm, Why: "it died"}
	}), scheme(t, "watch")})
	if err == nil || !strings.Contains(err.Error(), "client A: it ended") {
		t.Errorf("%v, want that client A ended", err)
	}
}

func TestClientThatComesElsewhere(t *testing.T) {
	_, err := startRunner(t).runCell(t.Context(), cell{custom(func(s *setup) observed {
		a := s.client("A")
		a.buyUntil(s.item(0), step.Half)
		return observed{Harm: verify.NoHarm, Why: "it got there"}
	}), scheme(t, "watch")})
	if err == nil || !strings.Contains(err.Error(), "(applied)") {
		t.Errorf("%v, want where it was and its outcome", err)
	}
}

// TestLockThatDoesNotSayThatItWaits is not played, and the reason is what it lacks.
// The machine is not to blame.
func TestLockThatDoesNotSayThatItWaits(t *testing.T) {
	t.Parallel()
	f, err := startRunner(t).runCell(t.Context(), cell{named(t, "clock-ahead"), scheme(t, "quiet")})
	if err != nil || f.Verdict != verify.Unavailable || !strings.Contains(f.Why, "step.Waiting") {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestClientThatIsRefusedLate: an operation that was given up before anything was sent
// tells of the machine, and is made again.
func TestClientThatIsRefusedLate(t *testing.T) {
	failed := OpResult{Reason: "not_sent", Error: "no time"}
	c := &client{name: "A", op: &operation{done: true, outcome: failed}}
	c.setup = &setup{ctx: t.Context()}
	c.events = make(chan event, 1)
	c.events <- event{Done: &c.op.outcome}
	if err := guard(func() {
		c.awaitStep(step.BeforeWrite)
	}); !errors.Is(err, errLate) {
		t.Errorf("%v, want errLate", err)
	}
}

// TestEnvironmentThatLacksSomething is a finding; any other failure is an error.
func TestEnvironmentThatLacksSomething(t *testing.T) {
	r := startRunner(t)
	lacking := custom(func(s *setup) observed {
		fail(fmt.Errorf("no such thing: %w\nmore of it", process.ErrUnavailable))
		return observed{Harm: verify.SoldTwice, Why: ""}
	})
	f, err := r.runCell(t.Context(), cell{lacking, scheme(t, "watch")})
	why := "no such thing: " + process.ErrUnavailable.Error()
	if err != nil || f.Verdict != verify.Unavailable || f.Why != why {
		t.Errorf("%+v, %v; want not played, and why in one line", f, err)
	}
}

// TestRunEndsWithTheFirstFailure keeps what was found until then, and marks the rest.
func TestRunEndsWithTheFirstFailure(t *testing.T) {
	errFire := errors.New("fire")
	fails := custom(func(s *setup) observed {
		fail(errFire)
		return observed{Harm: verify.NoHarm, Why: ""}
	})
	inapplicable := Scenario{Name: "inapplicable", Applies: func(Scheme) string {
		return "never"
	}}

	var reported []findings.Finding
	schemes := []Scheme{scheme(t, "watch")}
	res := NewResult("", []Scenario{inapplicable, fails}, schemes)
	err := startRunner(t).Run(t.Context(), res, []Scenario{inapplicable, fails}, schemes,
		func(f findings.Finding) { reported = append(reported, f) })
	found := res.Findings
	stopped := findings.Finding{
		Scenario: "custom", Subject: "watch", Verdict: verify.Stopped, Why: "scenario custom with watch: fire",
	}
	if !errors.Is(err, errFire) || len(found) != 2 || len(reported) != 1 || found[1] != stopped ||
		found[0] != reported[0] || found[0].Verdict != verify.NotApplicable {
		t.Errorf("found %v, reported %v, %v", found, reported, err)
	}
}

// TestBrokenPromise: harm counts against a lock only if it had promised otherwise.
func TestBrokenPromise(t *testing.T) {
	promising := lock.Promises{Exclusive: true}
	for _, c := range []struct {
		promise string
		made    lock.Promises
		verdict verify.Verdict
		want    string
	}{
		{"exclusive", promising, verify.Verdict(verify.TwoHolders), "exclusive"},
		{"exclusive", promising, verify.Verdict(verify.SoldTwice), "exclusive"},
		{"exclusive", promising, verify.StuckForGood, ""},
		{"survives a crash", lock.Promises{SurvivesCrash: true}, verify.StuckForGood, "survives a crash"},
		{"exclusive", promising, verify.StuckForTTL, ""},
		{"exclusive", promising, verify.Safe, ""},
		{"exclusive", promising, verify.NotApplicable, ""},
		{"exclusive", promising, verify.Unavailable, ""},
		{"exclusive", lock.Promises{}, verify.Verdict(verify.SoldTwice), ""},
		{
			"survives node loss", lock.Promises{SurvivesNodeLoss: true},
			verify.Failing, "survives node loss",
		},
		{"fair", promising, verify.Verdict(verify.SoldTwice), ""},
		{"", promising, verify.Verdict(verify.SoldTwice), ""},
	} {
		if got := (Scenario{Promise: c.promise}).broken(c.made, c.verdict); got != c.want {
			t.Errorf("%+v: broken %q", c, got)
		}
	}
}

// TestCancelledRun ends while a client is held, and another is stopped.
func TestCancelledRun(t *testing.T) {
	r := startRunner(t)
	before := children(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	f, err := r.runCell(ctx, cell{custom(func(s *setup) observed {
		a, b := s.client("A"), s.client("B")
		for _, x := range []*client{a, b} {
			x.buyUntil(s.item(0), step.BeforeWrite)
		}

		a.pause()
		if n := children(t) - before; n != 2 {
			t.Errorf("%d child processes, want 2", n)
		}

		cancel()
		s.wait(clientTimeout)
		return observed{Harm: verify.SoldTwice, Why: "nobody waited"}
	}), scheme(t, "watch")})

	if !errors.Is(err, context.Canceled) || f.Verdict != verify.Stopped {
		t.Errorf("%+v, %v; want context.Canceled", f, err)
	}
	if n := children(t) - before; n != 0 {
		t.Errorf("%d child processes are left", n)
	}
}

// TestNothingIsLeft runs with servers of a setup's own, and looks for processes
// afterwards. Goroutines are looked for after all tests.
func TestNothingIsLeft(t *testing.T) {
	r := nothingLeft(t)
	scenarios := []Scenario{
		named(t, "restart-empty"), named(t, "redlock-1-down"), named(t, "clock-ahead"),
	}
	cells := cross(scenarios, []Scheme{scheme(t, "set-px"), scheme(t, "redlock")})
	found, err := r.run(t.Context(), cells, Parallel, nil)
	if err != nil || len(found) != 6 {
		t.Errorf("%v, %v", found, err)
	}
}

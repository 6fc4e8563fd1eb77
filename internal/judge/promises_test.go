package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// A search that chance has ended concludes nothing, and one that the time has
// ended says how far it came.
func TestPromisesOfASearchThatWasStopped(t *testing.T) {
	for _, c := range []struct{ stopped, state string }{
		{"", "kept"}, {"the time that it was given", "kept"}, {"because " + search.ErrChance.Error(), "unchecked"},
	} {
		row := findings.Exploration{Judged: true, Program: locks, Searched: findings.Searched{Stopped: c.stopped}}
		found := judgement{searches: []findings.Exploration{row}, tested: map[string]bool{exclusive: true}}
		got := found.verdict(exclusive, "")
		if got.State != c.state || (got.Why == "") != (c.stopped == "") {
			t.Errorf("stopped %q: %+v, want %s", c.stopped, got, c.state)
		}
	}
}

// A token holds a program's command, and is typed into a shell as it stands.
func TestTokensNeedNoQuotes(t *testing.T) {
	for want, command := range map[string][]string{
		"python3_lock.py":         {"python3", "lock.py"},
		"sh_-c_echo___HOME__ls__": {"sh", "-c", "echo '$HOME'\nls *"},
	} {
		if got := (Options{Command: command}).subject(); got != want {
			t.Errorf("%q is %s in a token, want %s", command, got, want)
		}
	}
}

// The search reports one schedule in which a client is kept out. Others that break another
// promise by the same harm count nevertheless.
func TestWhatKeepsOthersOut(t *testing.T) {
	for want, struck := range map[string][]string{
		survivesCrash: {"die1"}, survivesCancel: {"late1", "cancel2-1"}, "who waits gets in": nil,
	} {
		if got := keptOutBreaks(struck); got != want {
			t.Errorf("after %q it breaks %q, want %q", struck, got, want)
		}
	}

	found := judgement{
		tested:  map[string]bool{survivesCrash: true, survivesCancel: true},
		keptOut: map[string]string{survivesCancel: "Bob has waited"},
	}
	for promise, state := range map[string]string{survivesCrash: "kept", survivesCancel: "broken"} {
		if got := found.verdict(promise, ""); got.State != state {
			t.Errorf("%s: %+v, want %s", promise, got, state)
		}
	}
}

// Calls are cancelled by default, but not those of a program that says nothing of it, of one
// that buys, or where no fault happens.
func TestWhoIsCancelled(t *testing.T) {
	for want, o := range map[string]Options{
		"":                            {Program: locks, Bounds: explore.Bounds{Faults: 1}},
		"no call was to be cancelled": {Program: "one-item", Bounds: explore.Bounds{Faults: 1}},
	} {
		heard := ProgramResult{kinds: o.kinds()}
		if got := o.uncancelled(heard); got != want || isCancel(string(o.kinds()[len(o.kinds())-1])) != (want == "") {
			t.Errorf("%s: %q, of %v, want %q", o.Program, got, o.kinds(), want)
		}
	}
	o := Options{Program: locks, Bounds: explore.Bounds{Faults: 1}}
	if got := o.uncancelled(ProgramResult{kinds: Kinds()}); !strings.Contains(got, "does not hear it") {
		t.Errorf("a program that does not hear: %q", got)
	}
	o.Bounds.Faults = 0
	if got := o.uncancelled(ProgramResult{kinds: o.kinds()}); got != "no call was to be cancelled" {
		t.Errorf("without faults: %q", got)
	}
}

// Kept takes every schedule with one preemption, and every one with one fault of any kind that
// the program can hear; the program that works is not preempted, and no fault strikes beside a
// clock that is ahead.
func TestKeptHasAFloor(t *testing.T) {
	const minute = time.Minute
	done := ProgramResult{kinds: Kinds(), Summary: search.Summary{Preemptions: 1, Faults: 1, Schedules: 90}}
	stopped := func(faults, preemptions int) ProgramResult {
		s := done
		s.Stopped = search.OutOfTime
		s.Faults = faults
		s.Preemptions = preemptions
		return s
	}
	few := done
	few.kinds = []explore.Fault{explore.Pause, explore.Die}
	both := explore.Bounds{Preemptions: 1, Faults: 1}

	for _, c := range []struct {
		what     string
		o        Options
		searched ProgramResult
		want     string
	}{
		{"all", Options{Bounds: both}, done, ""},
		{"what comes after the floor is cut off", Options{Bounds: both, Within: minute}, stopped(1, 1), ""},
		{"faults are cut off", Options{Bounds: both, Within: minute}, stopped(1, 0),
			"stopped after 90 schedules by the time that it was given: try --within 2m0s"},
		{"of the time of all programs", Options{Bounds: both, Within: minute, within: 3 * minute}, stopped(0, 1),
			"stopped after 90 schedules by the time that it was given: try --within 6m0s"},
		{"no preemption", Options{Bounds: explore.Bounds{Faults: 1}}, done,
			"nobody was preempted: --preemptions 1 has that happen"},
		{"who works is not preempted", Options{Program: works, Bounds: explore.Bounds{Faults: 1}}, done, ""},
		{"no fault", Options{Bounds: explore.Bounds{Preemptions: 1}}, done, "no fault happened: --faults 1 has that happen"},
		{"no fault beside a clock", Options{Program: clockAhead, Bounds: explore.Bounds{Preemptions: 1}}, done, ""},
		{"few kinds", Options{Bounds: both}, few, "--of has left out lose-reply and late"},
	} {
		if got := c.o.belowFloor(c.searched); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}

	found := newJudgement()
	found.add(Options{Program: works, Bounds: both}, few)
	found.tested = map[string]bool{exclusive: true, clockIndependent: true}
	for promise, state := range map[string]string{exclusive: "unchecked", clockIndependent: "kept"} {
		if got := found.verdict(promise, ""); got.State != state {
			t.Errorf("%s: %+v, want %s", promise, got, state)
		}
	}
}

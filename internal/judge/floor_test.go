package judge

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// Kept takes every schedule with one preemption, and every one with one fault of any kind that
// the program can hear; the program that works is not preempted, and no fault strikes beside a
// clock that is ahead.
func TestKeptHasAFloor(t *testing.T) {
	const minute = time.Minute
	all := search.Summary{Preemptions: 1, Faults: 1, Schedules: 70, Played: 90, Left: 180}
	done := ProgramResult{kinds: Kinds(), Summary: all}
	stopped := func(faults, preemptions int) ProgramResult {
		s := done
		s.Stopped = search.OutOfTime
		s.Faults = faults
		s.Preemptions = preemptions
		return s
	}

	interrupted := stopped(1, 0)
	interrupted.Stopped = "an interruption"
	few := done
	few.kinds = []explore.Fault{explore.Pause, explore.Die}
	both := explore.Bounds{Preemptions: 1, Faults: 1}

	for _, c := range []struct {
		what     string
		o        Options
		searched ProgramResult
		want     shortfall
	}{
		{"all", Options{Bounds: both}, done, shortfall{}},
		{
			"what comes after the floor is cut off",
			Options{Bounds: both, Within: minute}, stopped(1, 1), shortfall{},
		},
		{"faults are cut off", Options{Bounds: both, Within: minute}, stopped(1, 0),
			shortfall{"stopped after 90 schedules", 3 * minute}},
		{
			"of the time of all programs",
			Options{Bounds: both, Within: minute, wholeWithin: 3 * minute}, stopped(0, 1),
			shortfall{"stopped after 90 schedules", 9 * minute},
		},
		{"more time would not help", Options{Bounds: both, Within: minute}, interrupted,
			shortfall{why: "stopped after 90 schedules by an interruption"}},
		{"no preemption", Options{Bounds: explore.Bounds{Faults: 1}}, done,
			shortfall{why: "nobody was preempted: --preemptions 1 has that happen"}},
		{
			"who works is not preempted",
			Options{Program: works, Bounds: explore.Bounds{Faults: 1}}, done, shortfall{},
		},
		{"no fault", Options{Bounds: explore.Bounds{Preemptions: 1}}, done,
			shortfall{why: "no fault happened: --faults 1 has that happen"}},
		{
			"no fault beside a clock",
			Options{Program: clockAhead, Bounds: explore.Bounds{Preemptions: 1}}, done, shortfall{},
		},
		{
			"few kinds", Options{Bounds: both}, few,
			shortfall{why: "--of has left out lose-reply and late"},
		},
	} {
		if got := c.o.belowFloor(c.searched); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
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

// What was cut off is named for each program, with one time that may reach all of it.
func TestAllThatWasCutOffIsNamed(t *testing.T) {
	found := judgement{unreached: map[string]shortfall{
		locks:      {why: "stopped after 9 schedules", within: 2 * time.Minute},
		works:      {why: "stopped after 1 schedule", within: 5 * time.Minute},
		clockAhead: {why: "stopped after 2 schedules by an interruption"},
	}}
	for promise, want := range map[string]string{
		exclusive: "lock: stopped after 9 schedules; lock-works: stopped after 1 schedule; " +
			"--within 5m may reach it",

		clockIndependent: "lock-clock: stopped after 2 schedules by an interruption",
	} {
		if got := found.leftOut(promise); got != want {
			t.Errorf("%s: %q, want %q", promise, got, want)
		}
		if got := found.verdict(promise, "nothing has put it to the test"); got.Why != want {
			t.Errorf("%s was not put to the test, because of %q, want %q", promise, got.Why, want)
		}
	}
}

// The time that is recommended grows with what is known and not played.
func TestLongerTimes(t *testing.T) {
	for want, c := range map[time.Duration]struct {
		within       time.Duration
		played, left int
	}{
		2 * time.Minute:  {time.Minute, 100, 3},
		3 * time.Minute:  {90 * time.Second, 100, 100},
		5 * time.Minute:  {90 * time.Second, 100, 200},
		15 * time.Minute: {2 * time.Minute, 10, 50},
		30 * time.Minute: {90 * time.Second, 0, 900},
	} {
		if got := longer(c.within, search.Summary{Played: c.played, Left: c.left}); got != want {
			t.Errorf("after %+v: %s, want %s", c, got, want)
		}
	}
}

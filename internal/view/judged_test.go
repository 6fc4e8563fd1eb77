package view

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/verify"
)

// The schedules of a judged program begin with what breaks a promise, and each says what helps.
func TestBrokenPromisesStandFirst(t *testing.T) {
	drawn := &verify.Diagram{Clients: []string{"Alice", "Bob"}}
	outlived := findings.Exploration{Judged: true, Scheme: "lock.py", Program: "lock"}
	outlived.Shortest(verify.Violation{Harm: verify.Outlived, Text: "a"}, 0, 1, "x5/a/lock/d1")
	outlived.Diagram = drawn
	freed := findings.Exploration{Judged: true, Scheme: "lock.py", Program: "lock"}
	freed.Shortest(verify.Violation{Harm: verify.FreedAnothers, Text: "b"}, 0, 1, "x5/b/lock/d1")
	freed.Diagram = drawn
	freed.Broken = "owner-only release"

	d := Explored(&findings.Explorations{
		Judged: true, Searches: []findings.Exploration{outlived, freed},
	})
	var headings []string
	for _, b := range d.Blocks {
		if b.Schedule == nil {
			continue
		}
		headings = append(headings, b.Heading)
		if last := b.Note[len(b.Note)-1]; !strings.HasPrefix(last, "What helps: ") {
			t.Errorf("%s: nothing is said that helps: %q", b.Heading, b.Note)
		}
	}
	const want = "lock: freed another's, which breaks owner-only release; " +
		"lock: outlived its lease, which breaks no promise"
	if got := strings.Join(headings, "; "); got != want {
		t.Errorf("the schedules are %s", got)
	}
}

// judgedOf is what a search found: a harm with its schedule, of some preemptions and faults.
func judgedOf(program string, harm verify.Harm, faults int, token string) findings.Exploration {
	e := findings.Exploration{Judged: true, Scheme: "lock.py", Program: program}
	e.Shortest(verify.Violation{Harm: harm, Text: "both"}, 0, faults, token)
	e.Schedules = 9
	e.Harmful = 2
	e.Diagram = &verify.Diagram{
		Clients: []string{"Alice", "Bob"}, End: []string{"Harm: " + harm.String()},
	}
	return e
}

// A schedule that does two harms is drawn once, with both, and a harm that two programs show is
// drawn by the shorter schedule; the other has the command that plays it.
func TestEachScheduleIsDrawnOnce(t *testing.T) {
	all := []findings.Exploration{
		judgedOf("lock", verify.NotTold, 1, "x5/a/lock/d1"),
		judgedOf("lock-works", verify.Outlived, 0, "x5/a/lock-works/d2"),
		judgedOf("lock-works", verify.NotTold, 0, "x5/a/lock-works/d2"),
	}
	d := Explored(&findings.Explorations{Judged: true, Searches: all})
	var pictures, others []string
	for _, b := range d.Blocks {
		switch {
		case b.Schedule != nil:
			pictures = append(pictures, b.Heading+": "+strings.Join(b.Schedule.Schedule.End, ", "))
		case b.Again != "":
			others = append(others, b.Heading+": "+b.Again)
		}
	}

	const picture = "lock-works: outlived its lease and not told of a loss, " +
		"which breaks no promise: Harm: outlived its lease, Harm: not told of a loss"
	if len(pictures) != 1 || pictures[0] != picture {
		t.Errorf("drawn are %q, want %q", pictures, picture)
	}
	const other = "Also in lock: not told of a loss: marketsim judge --replay x5/a/lock/d1 -- lock.py"
	if len(others) != 1 || others[0] != other {
		t.Errorf("not drawn are %q, want %q", others, other)
	}
	if n := len(all[1].Diagram.End); n != 1 {
		t.Errorf("what was found has %d lines below its schedule", n)
	}
}

// A replay is told as one schedule, and not as a search.
func TestReplayIsOneSchedule(t *testing.T) {
	still := judgedOf("lock", "", 0, "x5/a/lock/d1")
	outlived := judgedOf("lock", verify.Outlived, 1, "x5/a/lock/d1")

	for want, e := range map[string]findings.Exploration{
		"One schedule was played, and did no harm this time.":                       still,
		"One schedule was played, and breaks no promise: outlived its lease: both.": outlived,
	} {
		d := Explored(&findings.Explorations{
			Judged: true, Replayed: e.Token, Searches: []findings.Exploration{e},
		})
		notes := strings.Join(d.Blocks[0].Note, " ")
		if e.Harm == "" &&
			(strings.Contains(notes, "shortest") || d.Blocks[0].Heading != "lock: no harm") {
			t.Errorf("%s: %s: it is told as one that does harm", d.Blocks[0].Heading, notes)
		}

		if d.Title != "Played again: lock.py" || d.Findings[0] != want || len(d.Blocks) != 1 {
			t.Errorf("%s: %q, and %d blocks; want %q", d.Title, d.Findings, len(d.Blocks), want)
		}
	}
}

// The same reason is told once, and purchases that were not searched to the end are named.
func TestUncheckedIsToldOnce(t *testing.T) {
	const why = "stopped after 9 schedules"
	table := promisesTable([]verify.PromiseState{
		{Promise: "exclusive", State: "unchecked", Why: "stopped\n\tafter 9 schedules"},
		{Promise: "fenced", State: "unchecked", Why: why},
	})
	if got := strings.Join(table.column(2), "; "); got != why+"; as for exclusive" {
		t.Errorf("the reasons are %s", got)
	}

	cut := findings.Exploration{Judged: true, Scheme: "buy.py", Program: "one-item"}
	cut.Schedules = 9
	cut.Stopped = "the time that it was given"
	d := Explored(&findings.Explorations{Judged: true, Searches: []findings.Exploration{cut}})
	const want = "Unchecked: one-item (stopped after 9 schedules by the time that it was given)."
	if len(d.Findings) == 0 || !strings.HasPrefix(d.Findings[0], want) {
		t.Errorf("%q, want %q", d.Findings, want)
	}
}

// The report heads a program that was not searched far enough by what was not checked.
func TestUncheckedPromisesStandFirst(t *testing.T) {
	for want, promises := range map[string][]verify.PromiseState{
		"No promise was broken": {
			{Promise: "exclusive", State: "kept"}, {Promise: "fenced", State: "not offered"},
		},
		"Unchecked: exclusive. Nothing was seen broken": {{Promise: "exclusive", State: "unchecked"}},
		"A loss is not noticed: a holder that had lost the lock was told": {
			{Promise: "notices loss", State: "not kept"}, {Promise: "exclusive", State: "kept"},
		},
	} {
		r := &findings.Explorations{
			Judged: true, Promises: promises, Notes: []string{"lease: asked for 500ms"},
		}
		d := Explored(r)
		if !strings.HasPrefix(strings.Join(d.Findings, " "), want) {
			t.Errorf("%+v: %q, want %q", promises, d.Findings, want)
		}

		if len(d.Facts) != 2 || d.Facts[1] != r.Notes[0] {
			t.Errorf("the facts are %q", d.Facts)
		}
	}
}

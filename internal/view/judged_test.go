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

	d := Explored(&findings.Explorations{Judged: true, Searches: []findings.Exploration{outlived, freed}})
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
	const want = "lock.py in lock: freed another's; lock.py in lock: outlived its lease"
	if got := strings.Join(headings, "; "); got != want {
		t.Errorf("the schedules are %s", got)
	}
}

// The report heads a program that was not searched far enough by what was not checked.
func TestUncheckedPromisesStandFirst(t *testing.T) {
	for want, promises := range map[string][]verify.PromiseState{
		"No promise was broken": {
			{Promise: "exclusive", State: "kept"}, {Promise: "fenced", State: "not offered"},
		},
		"Not concluded: exclusive: unchecked": {{Promise: "exclusive", State: "unchecked"}},
		"released it: few libraries promise":  {{Promise: "notices loss", State: "not kept"}},
	} {
		r := &findings.Explorations{Judged: true, Promises: promises, Notes: []string{"lease: asked for 500ms"}}
		d := Explored(r)
		if !strings.Contains(strings.Join(d.Findings, " "), want) {
			t.Errorf("%+v: %q, want %q", promises, d.Findings, want)
		}
		if len(d.Facts) != 2 || d.Facts[1] != r.Notes[0] {
			t.Errorf("the facts are %q", d.Facts)
		}
	}
}

package fault

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
)

// small is a complete result.
func small() *Result {
	return &Result{
		Schema: Schema, Status: bench.Complete, Manifest: Manifest{Version: "v1", Server: "redis"},
		Scenarios: []Played{{"pause", "it pauses", "exclusive"}}, Subjects: []string{"watch", "set-px"},
		Findings: []Finding{
			{Scenario: "pause", Subject: "watch", Verdict: Safe, Why: "refused"},
			{Scenario: "pause", Subject: "set-px", Verdict: SoldTwice, Why: "both paid", Broken: "exclusive"},
		},
	}
}

func TestResultIsReadAsWritten(t *testing.T) {
	partial := small()
	partial.Status, partial.Findings = bench.Interrupted, partial.Findings[:1]
	for _, res := range []*Result{small(), partial} {
		var b bytes.Buffer
		if err := res.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := ReadResult(&b)
		if err != nil || !reflect.DeepEqual(again, res) {
			t.Errorf("read %+v, %v; want %+v", again, err, res)
		}
	}
}

func TestDamagedResultIsRefused(t *testing.T) {
	for _, c := range []struct {
		says   string
		damage func(*Result)
	}{
		{"schema 2; this marketsim reads schema 1", func(r *Result) { r.Schema = 2 }},
		{`unknown status "done"`, func(r *Result) { r.Status = "done" }},
		{`unknown verdict "fine"`, func(r *Result) { r.Findings[0].Verdict = "fine" }},
		{"two findings", func(r *Result) { r.Findings[1] = r.Findings[0] }},
		{`with "set-px" is missing`, func(r *Result) { r.Findings = r.Findings[:1] }},
		{"does not list", func(r *Result) { r.Subjects = r.Subjects[:1] }},
		{"does not list", func(r *Result) { r.Scenarios = nil }},
		{"listed twice", func(r *Result) { r.Subjects = append(r.Subjects, "watch") }},
	} {
		res := small()
		c.damage(res)
		var b bytes.Buffer
		if err := res.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadResult(&b); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	var whole bytes.Buffer
	if err := small().Write(&whole); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"truncated": whole.String()[:whole.Len()/2], "trailing": whole.String() + "{}", "empty": "", "a list": "[]",
	} {
		if _, err := ReadResult(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), "read faults: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

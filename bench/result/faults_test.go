package result_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// small is a complete result.
func small() *result.Faults {
	return &result.Faults{
		Schema: result.FaultsSchema, Status: result.Complete, Manifest: result.FaultsManifest{Version: "v1", Server: "redis"},
		Scenarios: []result.Scenario{{"pause", "it pauses", "exclusive"}}, Subjects: []string{"watch", "set-px"},
		Findings: []result.Finding{
			{
				Scenario: "pause", Subject: "watch", Verdict: result.StuckForTTL, Harm: result.NoHarm,
				KeptOut: result.LeaseRanOut, Why: "refused"},
			{Scenario: "pause", Subject: "set-px", Verdict: "sold twice", Why: "both paid", Broken: "exclusive"},
		},
	}
}

func TestResultIsReadAsWritten(t *testing.T) {
	partial := small()
	partial.Status, partial.Findings = result.Interrupted, partial.Findings[:1]
	for _, res := range []*result.Faults{small(), partial} {
		var b bytes.Buffer
		if err := res.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := result.ReadFaults(&b)
		if err != nil || !reflect.DeepEqual(again, res) {
			t.Errorf("read %+v, %v; want %+v", again, err, res)
		}
	}
}

func TestDamagedResultIsRefused(t *testing.T) {
	for _, c := range []struct {
		says   string
		damage func(*result.Faults)
	}{
		{"schema 2; this marketsim reads schema 1", func(r *result.Faults) { r.Schema = 2 }},
		{`unknown status "done"`, func(r *result.Faults) { r.Status = "done" }},
		{`unknown verdict "fine"`, func(r *result.Faults) { r.Findings[0].Verdict = "fine" }},
		{"do not go with the verdict", func(r *result.Faults) { r.Findings[0].Verdict = result.Safe }},
		{"do not go with the verdict", func(r *result.Faults) { r.Findings[0].Harm = "fire" }},
		{"do not go with the verdict", func(r *result.Faults) { r.Findings[0].KeptOut = "" }},
		{"was stopped in a result that says it is complete", func(r *result.Faults) {
			r.Findings[1] = result.Finding{Scenario: "pause", Subject: "set-px", Verdict: result.Stopped}
		}},
		{"two findings", func(r *result.Faults) { r.Findings[1] = r.Findings[0] }},
		{`with "set-px" is missing`, func(r *result.Faults) { r.Findings = r.Findings[:1] }},
		{"does not list", func(r *result.Faults) { r.Subjects = r.Subjects[:1] }},
		{"does not list", func(r *result.Faults) { r.Scenarios = nil }},
		{"listed twice", func(r *result.Faults) { r.Subjects = append(r.Subjects, "watch") }},
	} {
		res := small()
		c.damage(res)
		var b bytes.Buffer
		if err := res.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := result.ReadFaults(&b); err == nil || !strings.Contains(err.Error(), c.says) {
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
		_, err := result.ReadFaults(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), "read faults: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

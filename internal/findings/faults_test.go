package findings_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// small is a complete table.
func small() *findings.FaultTable {
	return &findings.FaultTable{
		Schema: findings.FaultSchema, Status: stored.Complete, Manifest: findings.FaultManifest{
			Version: "v1", Server: "redis", Libraries: map[string]string{"a.org/lock": "v1.0.0"},
		},
		Scenarios: []findings.ScenarioInfo{{"pause", "it pauses", "exclusive"}},
		Subjects:  []string{"watch", "set-px"},
		Findings: []findings.Finding{
			{
				Scenario: "pause", Subject: "watch", Verdict: verify.StuckForTTL, Harm: verify.NoHarm,
				KeptOut: verify.LeaseRanOut, Why: "refused"},
			{
				Scenario: "pause", Subject: "set-px", Verdict: "sold twice", Why: "both paid",
				Broken: "exclusive"},
		},
	}
}

func TestResultIsReadAsWritten(t *testing.T) {
	partial := small()
	partial.Status, partial.Findings = stored.Interrupted, partial.Findings[:1]
	for _, res := range []*findings.FaultTable{small(), partial} {
		var b bytes.Buffer
		testkit.Succeeds(t, res.Write(&b))
		again, err := findings.ReadFaultTable(&b)
		if err != nil || !reflect.DeepEqual(again, res) {
			t.Errorf("read %+v, %v; want %+v", again, err, res)
		}
	}
}

func TestDamagedResultIsRefused(t *testing.T) {
	for _, c := range []struct {
		says   string
		damage func(*findings.FaultTable)
	}{
		{"schema 2; this marketsim reads schema 1", func(r *findings.FaultTable) { r.Schema = 2 }},
		{`unknown status "done"`, func(r *findings.FaultTable) { r.Status = "done" }},
		{`unknown verdict "fine"`, func(r *findings.FaultTable) { r.Findings[0].Verdict = "fine" }},
		{"do not go with the verdict", func(r *findings.FaultTable) {
			r.Findings[0].Verdict = verify.Safe
		}},
		{"do not go with the verdict", func(r *findings.FaultTable) { r.Findings[0].Harm = "fire" }},
		{"do not go with the verdict", func(r *findings.FaultTable) { r.Findings[0].KeptOut = "" }},
		{"was stopped in a result that says it is complete", func(r *findings.FaultTable) {
			r.Findings[1] = findings.Finding{Scenario: "pause", Subject: "set-px", Verdict: verify.Stopped}
		}},
		{"two findings", func(r *findings.FaultTable) { r.Findings[1] = r.Findings[0] }},
		{`with "set-px" is missing`, func(r *findings.FaultTable) { r.Findings = r.Findings[:1] }},
		{"does not list", func(r *findings.FaultTable) { r.Subjects = r.Subjects[:1] }},
		{"does not list", func(r *findings.FaultTable) { r.Scenarios = nil }},
		{"listed twice", func(r *findings.FaultTable) { r.Subjects = append(r.Subjects, "watch") }},
	} {
		res := small()
		c.damage(res)
		var b bytes.Buffer
		testkit.Succeeds(t, res.Write(&b))
		if _, err := findings.ReadFaultTable(&b); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}

	// From here the text itself is damaged: no table could be written like that.
	var whole bytes.Buffer
	testkit.Succeeds(t, small().Write(&whole))
	for name, text := range map[string]string{
		"unknown":   strings.Replace(whole.String(), `"harm"`, `"hazm"`, 1),
		"later":     `{"later":1,"schema":2}`,
		"truncated": whole.String()[:whole.Len()/2],
		"trailing":  whole.String() + "{}",
		"empty":     "",
		"a list":    "[]",
	} {
		_, err := findings.ReadFaultTable(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), "read faults: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeptAndRestored: only what is missing, was kept before or is named is left to play,
// and what nothing was observed of then is as before, with a mark.
func TestKeptAndRestored(t *testing.T) {
	fresh := func() *findings.FaultTable { // two scenarios, of which the table has one
		r := small()
		r.Manifest = findings.FaultManifest{
			Version: "v2", Libraries: map[string]string{"a.org/lock": "v1.2.0"},
		}
		r.Scenarios = append(r.Scenarios, findings.ScenarioInfo{Name: "cut"})
		r.Findings = nil
		for _, sc := range []string{"pause", "cut"} {
			for _, s := range []string{"watch", "set-px"} {
				r.Findings = append(r.Findings, findings.Finding{
					Scenario: sc, Subject: s, Verdict: verify.Stopped, Why: "not yet",
				})
			}
		}
		return r
	}

	sound := func() *findings.FaultTable {
		r := small()
		r.Findings[1].Broken = "" // or it is played again: its lock may have been mended
		return r
	}

	marked := sound()
	marked.Findings[1].Kept = "no etcd"
	lacking := sound()
	lacking.Findings[0] = findings.Finding{
		Scenario: "pause", Subject: "watch", Verdict: verify.Unavailable,
	}

	for _, c := range []struct {
		name                string
		before              *findings.FaultTable
		scenarios, subjects []string
		missing             map[string]int
		kept                int // where nothing can be played
	}{
		{"nothing named", sound(), nil, nil, map[string]int{"cut": 2}, 0},
		{"a scenario", sound(), []string{"pause"}, nil, map[string]int{"cut": 2, "pause": 2}, 2},
		{"a cell", sound(), []string{"pause"}, []string{"watch"}, map[string]int{"cut": 2, "pause": 1}, 1},
		{"a subject", sound(), nil, []string{"set-px"}, map[string]int{"cut": 2, "pause": 1}, 1},
		{"kept before", marked, nil, nil, map[string]int{"cut": 2, "pause": 1}, 1},
		{"broken before", small(), nil, nil, map[string]int{"cut": 2, "pause": 1}, 1},
		{"not played before", lacking, nil, nil, map[string]int{"cut": 2, "pause": 1}, 0},
	} {
		r := fresh()
		testkit.Succeeds(t, r.Keep(c.before, c.scenarios, c.subjects))
		if got := r.Missing(); !reflect.DeepEqual(got, c.missing) {
			t.Errorf("%s: %v are missing, want %v", c.name, got, c.missing)
		}

		kept, m := r.Restore(c.before), &r.Manifest
		if kept != c.kept || m.Version != "v1" || m.Libraries["a.org/lock"] != "v1.0.0 and v1.2.0" {
			t.Errorf("%s: %d are kept, want %d, and the manifest is %+v", c.name, kept, c.kept, m)
		}

		for i, was := range c.before.Findings {
			is := r.Findings[i]
			if is.Kept != "" && is.Kept != "not yet" {
				t.Errorf("%s: kept because %q", c.name, is.Kept)
			}
			is.Kept, was.Kept = "", ""
			if is != was && was.Verdict != verify.Unavailable {
				t.Errorf("%s: %+v became %+v", c.name, was, is)
			}
		}
	}

	for _, unknown := range [][2][]string{{{"pasue"}, nil}, {nil, {"watch", "coarse"}}} {
		err := fresh().Keep(small(), unknown[0], unknown[1])
		if err == nil || !strings.Contains(err.Error(), "is not in that table") {
			t.Errorf("%v: %v", unknown, err)
		}
	}
}

// FuzzReadFaults: no file is a reason to panic, and what is read is written and
// read again as it was.
func FuzzReadFaults(f *testing.F) {
	// Without indents: go test -fuzz takes long to shorten a long input.
	seed, err := json.Marshal(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) { testkit.ReadAgain(t, data, findings.ReadFaultTable) })
}

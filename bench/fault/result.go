package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/marketsim/marketsim/bench"
)

// Schema is the version of the faults.json format. Fields are added, never renamed.
const Schema = 1

// A Result is what is stored of scenarios that were played. It holds no times and no addresses: the same marketsim on
// the same machine finds the same again, byte by byte.
type Result struct {
	Schema    int          `json:"schema"`
	Status    bench.Status `json:"status"`
	Manifest  Manifest     `json:"manifest"`
	Scenarios []Played     `json:"scenarios"`
	Subjects  []string     `json:"subjects"` // in the order in which they are shown
	Findings  []Finding    `json:"findings"` // scenario by scenario; one for each subject if the status is complete
}

// Manifest says what found it.
type Manifest struct {
	Version       string `json:"version"` // marketsim's
	Go            string `json:"go"`
	OS            string `json:"os"`      // GOOS/GOARCH
	Backend       string `json:"backend"` // of the market: local or embedded
	Server        string `json:"server"`  // redis, valkey or miniredis
	ServerVersion string `json:"server_version"`
}

// Played is a scenario as it is stored.
type Played struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Promise string `json:"promise,omitempty"` // as in Scenario
}

// NewResult is one without findings yet.
func NewResult(m Manifest, scenarios []Scenario, subjects []Subject) *Result {
	res := &Result{Schema: Schema, Status: bench.Incomplete, Manifest: m, Findings: []Finding{}}
	for _, sc := range scenarios {
		res.Scenarios = append(res.Scenarios, Played{sc.Name, sc.Title, sc.Promise})
	}
	for _, s := range subjects {
		res.Subjects = append(res.Subjects, s.Name)
	}
	return res
}

// Of returns the findings of a scenario.
func (r *Result) Of(scenario string) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Scenario == scenario {
			found = append(found, f)
		}
	}
	return found
}

// Broken returns the findings in which a lock broke a promise of its own.
func (r *Result) Broken() []Finding {
	var broken []Finding
	for _, f := range r.Findings {
		if f.Broken != "" {
			broken = append(broken, f)
		}
	}
	return broken
}

// Write stores the result as indented JSON.
func (r *Result) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	return nil
}

// ReadResult reads what Write stored. It refuses what Write would not have stored: another schema, an unknown status or
// verdict, a finding of no scenario or subject, one that is there twice or missing, and trailing data.
func ReadResult(r io.Reader) (*Result, error) {
	dec := json.NewDecoder(r)
	var res Result
	err := dec.Decode(&res)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, errors.New("read faults: it is cut short; make it anew with 'marketsim faults --out'")
	}
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("read faults: data after the end of the result")
	}
	if err := res.check(); err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	return &res, nil
}

func (r *Result) check() error {
	if r.Schema != Schema {
		return fmt.Errorf("schema %d; this marketsim reads schema %d", r.Schema, Schema)
	}
	switch r.Status {
	case bench.Complete, bench.Incomplete, bench.Interrupted:
	default:
		return fmt.Errorf("unknown status %q", r.Status)
	}
	found := map[[2]string]bool{}
	for _, f := range r.Findings {
		cell := [2]string{f.Scenario, f.Subject}
		switch {
		case !slices.Contains(Verdicts(), f.Verdict):
			return fmt.Errorf("unknown verdict %q of scenario %q with %q", f.Verdict, f.Scenario, f.Subject)
		case found[cell]:
			return fmt.Errorf("two findings of scenario %q with %q", f.Scenario, f.Subject)
		}
		found[cell] = true
	}
	cells := 0
	for _, sc := range r.Scenarios {
		for _, s := range r.Subjects {
			switch {
			case found[[2]string{sc.Name, s}]:
				cells++
			case r.Status == bench.Complete:
				return fmt.Errorf("scenario %q with %q is missing from a result that says it is complete", sc.Name, s)
			}
		}
	}
	if cells != len(found) {
		return errors.New("a finding names a scenario or a subject that the result does not list, or one is listed twice")
	}
	return nil
}

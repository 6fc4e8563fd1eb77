// Package findings stores what was found: by scenarios in faults.json ([FaultTable]), and by
// searches of schedules in explored.json ([Explorations]). What is read is what was
// written, to the byte. Package verify has the words for it.
package findings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/verify"
)

// A Finding is what one scenario did to one scheme, a strategy with its lock.
type Finding struct {
	Scenario string         `json:"scenario"`
	Subject  string         `json:"subject"` // the scheme
	Verdict  verify.Verdict `json:"verdict"`
	// Harm and KeptOut are empty where nothing was observed, and in older files.
	Harm    verify.Harm    `json:"harm,omitempty"`
	KeptOut verify.KeptOut `json:"kept_out,omitempty"`
	Why     string         `json:"why"` // one line
	// Leases is for how many leases others were kept out, to half a lease, from when the
	// lease began. It is not the same each time: 0.5 more or less is as good. It is 0
	// where KeptOut is not Measured, and in older files.
	Leases float64 `json:"leases,omitempty"`
	// Of the lock, that the verdict breaks; empty: none.
	Broken string `json:"broken_promise,omitempty"`
	// Gone is how many purchases were acknowledged and then lost by the server, and
	// SecondsWithoutService how long none was acknowledged around a failure, which is not
	// the same each time. Both are 0 where the scenario does not ask.
	Gone                  int     `json:"gone,omitempty"`
	SecondsWithoutService float64 `json:"seconds_without_service,omitempty"`
	// Why this is of an earlier run; empty: it is not.
	Kept string `json:"kept,omitempty"`
}

// Outcome is both observations in short: "no harm, 1 lease". If nothing was
// observed it says why.
func (f Finding) Outcome() string {
	kept := f.KeptOut.String()
	switch {
	case f.Leases > 0 && f.KeptOut == verify.LeaseRanOut:
		kept = leasesInWords(f.Leases)
	case f.Leases > 0:
		kept += ", " + leasesInWords(f.Leases)
	}
	return strings.TrimSuffix(f.Happened()+", "+kept, ", ")
}

// InWords is both observations, in full.
func (f Finding) InWords() string {
	outcome := string(f.Harm)
	if f.Harm == verify.NoHarm {
		outcome = "no harm"
	}

	switch f.KeptOut {
	case "": // nothing was observed, which the verdict says
		return string(f.Verdict)
	case verify.NotAsked, verify.NoLease:
		return outcome
	case verify.AtOnce:
		return outcome + "; others get in at once"
	case verify.OrdersFail:
		return outcome + "; " + string(f.KeptOut)
	case verify.NeverIn:
		return outcome + "; others never get in"
	}

	// The other values begin with "until": a new one that does not needs a case above.
	outcome += "; others kept out " + string(f.KeptOut)
	if f.Leases > 0 {
		outcome += " (" + leasesInWords(f.Leases) + ")"
	}
	return outcome
}

// Happened is what happened to money and items, or why nothing was observed.
func (f Finding) Happened() string {
	if f.Harm == "" {
		return string(f.Verdict)
	}
	return f.Harm.String()
}

// leasesInWords is a number of leases in words.
func leasesInWords(n float64) string {
	if n == 1 {
		return "1 lease"
	}
	return fmt.Sprintf("%g leases", n)
}

// observed reports whether the scenario was played, or cannot happen.
func (f Finding) observed() bool {
	return f.Verdict != verify.Stopped && f.Verdict != verify.Unavailable
}

// consistent reports whether what was observed is known and agrees with the
// verdict, or is absent.
func (f Finding) consistent() bool {
	if f.Harm == "" && f.KeptOut == "" {
		return true
	}
	known := slices.Contains(verify.Harms(), f.Harm) && slices.Contains(verify.KeptOuts(), f.KeptOut)
	return known && f.Verdict == verify.VerdictOf(f.Harm, f.KeptOut)
}

// FaultSchema is the version of the faults.json format. Fields are added, never renamed.
const FaultSchema = 1

// A FaultTable has the findings of scenarios as they are stored: the same marketsim on the
// same machine finds the same again.
type FaultTable struct {
	Schema    int            `json:"schema"`
	Status    stored.Status  `json:"status"`
	Manifest  FaultManifest  `json:"manifest"`
	Scenarios []ScenarioInfo `json:"scenarios"`
	// Names of schemes, in the order in which they are shown.
	Subjects []string  `json:"subjects"`
	Findings []Finding `json:"findings"` // scenario by scenario, one for each subject
}

// FaultManifest says which program and which server made the findings.
type FaultManifest struct {
	Version       string `json:"version"` // marketsim's
	Go            string `json:"go"`
	OS            string `json:"os"`      // GOOS/GOARCH
	Backend       string `json:"backend"` // of the market: local or embedded
	Server        string `json:"server"`  // redis, valkey or miniredis
	ServerVersion string `json:"server_version"`
	// Libraries are the modules whose code was under test, with their versions.
	// Older files have none.
	Libraries map[string]string `json:"libraries,omitempty"`
	Scripts   []stored.Script   `json:"scripts,omitempty"` // of the user's, that are schemes
}

// ScenarioInfo is a scenario as it is stored.
type ScenarioInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Promise string `json:"promise,omitempty"` // of a lock, that says that it survives this
}

func (r *FaultTable) where(holds func(Finding) bool) []Finding { return filter(r.Findings, holds) }

func filter(all []Finding, holds func(Finding) bool) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return !holds(f) })
}

// Of returns the findings of a scenario.
func (r *FaultTable) Of(scenario string) []Finding {
	return r.where(func(f Finding) bool { return f.Scenario == scenario })
}

// Against returns the findings that speak against a subject, and how many could have.
func (r *FaultTable) Against(subject string) (against []Finding, of int) {
	played := r.where(func(f Finding) bool { return f.Subject == subject && (f.Harm != "" || f.Verdict.Harm()) })

	bad := func(f Finding) bool { return f.Verdict.Harm() || f.KeptOut == verify.NeverIn || f.Broken != "" }
	return filter(played, bad), len(played)
}

// finding is that of a scenario with a subject; a stopped one if there is none.
func (r *FaultTable) finding(scenario, subject string) Finding {
	for _, f := range r.Findings {
		if f.Scenario == scenario && f.Subject == subject {
			return f
		}
	}
	return Finding{Verdict: verify.Stopped}
}

// Keep copies what was observed before into a new result, so that only the rest is
// played: what was not observed, is marked as kept or breaks a promise, and the cells of
// the named scenarios and subjects. An empty list names all, two empty ones name no cell. It
// refuses unknown names.
func (r *FaultTable) Keep(before *FaultTable, scenarios, subjects []string) error {
	for _, name := range scenarios {
		if !slices.ContainsFunc(r.Scenarios, func(s ScenarioInfo) bool { return s.Name == name }) {
			return fmt.Errorf("scenario %s is not in that table: run it by itself", name)
		}
	}
	for _, name := range subjects {
		if !slices.Contains(r.Subjects, name) {
			return fmt.Errorf("%s is not in that table: run it by itself", name)
		}
	}

	named := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

	for i, f := range r.Findings {
		again := len(scenarios)+len(subjects) > 0 && named(scenarios, f.Scenario) && named(subjects, f.Subject)
		was := before.finding(f.Scenario, f.Subject)
		settled := was.observed() && was.Kept == "" && was.Broken == ""
		if settled && !again {
			r.Findings[i] = was
		}
	}
	return nil
}

// Restore puts back what was observed before where nothing was observed now, marks it as
// kept, and returns how many findings that are. The manifest stays that of the table;
// versions of libraries that are new are added to it.
func (r *FaultTable) Restore(before *FaultTable) (kept int) {
	played := r.Manifest.Libraries
	r.Manifest = before.Manifest
	r.Manifest.Libraries = maps.Clone(before.Manifest.Libraries) // it stays before's own
	for module, was := range r.Manifest.Libraries {
		// A module that is not in played has no version there: every text contains "".
		if now := played[module]; !strings.Contains(was, now) {
			r.Manifest.Libraries[module] = was + " and " + now
		}
	}

	for i, f := range r.Findings {
		was := before.finding(f.Scenario, f.Subject)
		if !f.observed() && was.observed() {
			was.Kept = f.Why
			r.Findings[i] = was
			kept++
		}
	}
	return kept
}

// Kept is how many findings are of an earlier run, because they could not be made again.
func (r *FaultTable) Kept() int { return len(r.where(func(f Finding) bool { return f.Kept != "" })) }

// Missing is how many findings of each scenario are not made: the run ended
// before that, or has not begun.
func (r *FaultTable) Missing() map[string]int {
	missing := map[string]int{}
	for _, f := range r.Findings {
		if f.Verdict == verify.Stopped {
			missing[f.Scenario]++
		}
	}
	return missing
}

// Found is how many findings were made, and not prevented by the end of the run.
func (r *FaultTable) Found() int {
	return len(r.where(func(f Finding) bool { return f.Verdict != verify.Stopped }))
}

// Broken returns the findings in which a lock broke a promise of its own.
func (r *FaultTable) Broken() []Finding {
	return r.where(func(f Finding) bool { return f.Broken != "" })
}

// Write stores the result as indented JSON.
func (r *FaultTable) Write(w io.Writer) error { return stored.Encode(w, "faults", r, " ") }

// ReadFaultTable reads what Write stored, and refuses what Write would not have.
func ReadFaultTable(r io.Reader) (*FaultTable, error) {
	var res FaultTable
	return &res, read(r, "faults", "faults", &res, &res.Schema, FaultSchema)
}

// read reads what Write stored, and refuses what a later marketsim stored,
// which may have other fields. schema is that of into, where Decode puts it even if it
// refuses other fields: if it is not known, the error says so and names no field. A schema of
// 0 beside an error was not read.
func read(r io.Reader, what, command string, into interface{ check() error }, schema *int, known int) error {
	err := asInFile(stored.Decode(r, into, "marketsim "+command+" --out"))
	switch {
	case *schema != known && (err == nil || *schema != 0):
		err = fmt.Errorf("schema %d; this marketsim reads schema %d", *schema, known)
	case err == nil:
		err = into.check()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

var embedded = strings.NewReplacer(".Searched.", ".", ".ShortestHarm.", ".")

// asInFile names a field as the file does, where the parts of an Exploration do not show.
func asInFile(err error) error {
	if err == nil {
		return nil
	}
	if text := embedded.Replace(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// check refuses a table that contradicts itself, as one that was written by hand, cut off or
// merged may: what is drawn of it would be wrong, and nobody would see it.
func (r *FaultTable) check() error {
	if err := r.Status.Check(); err != nil {
		return err
	}

	found := map[[2]string]bool{}
	for _, f := range r.Findings {
		cell := [2]string{f.Scenario, f.Subject}
		switch {
		case !slices.Contains(verify.Verdicts(), f.Verdict):
			return fmt.Errorf("unknown verdict %q of scenario %q with %q", f.Verdict, f.Scenario, f.Subject)
		case !f.consistent():
			return fmt.Errorf("scenario %q with %q: harm %q and kept_out %q do not go with the verdict %q", f.Scenario,
				f.Subject, f.Harm, f.KeptOut, f.Verdict)
		case f.Verdict == verify.Stopped && r.Status == stored.Complete:
			return fmt.Errorf("scenario %q with %q was stopped in a result that says it is complete", f.Scenario, f.Subject)
		case found[cell]:
			return fmt.Errorf("two findings of scenario %q with %q", f.Scenario, f.Subject)
		}
		found[cell] = true
	}

	cells := 0
	for _, sc := range r.Scenarios {
		for _, s := range r.Subjects {
			if found[[2]string{sc.Name, s}] {
				cells++
			} else if r.Status == stored.Complete {
				return fmt.Errorf("scenario %q with %q is missing from a result that says it is complete", sc.Name, s)
			}
		}
	}

	// Each finding has its cell, and each cell was counted once.
	if cells != len(found) {
		return errors.New("a finding names a scenario or a subject that the result does not list, or one is listed twice")
	}
	return nil
}

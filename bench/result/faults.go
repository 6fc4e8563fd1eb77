package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Harm is what happened to money and items in a scenario: the worst of what is true, which is the last in Harms.
type Harm string

// The harms.
const (
	NoHarm     Harm = "none"
	TwoHolders Harm = "two holders" // two clients held what only one may; the money is right this time
	// PurchasesGone is not the scheme's doing, but that of Redis, which replicates after it has answered.
	PurchasesGone Harm = "purchases gone"
	ToldNo        Harm = "wrongly told no"  // a buyer paid once, has the item, and was told that it was not bought
	ToldYes       Harm = "wrongly told yes" // a client was told that its operation was applied, and nothing was
	ChargedTwice  Harm = "charged twice"    // a buyer paid more often than they bought
	NotPaid       Harm = "not paid"         // a buyer has an item that they did not pay for
	Overdrawn     Harm = "overdrawn"        // an account is below zero
	CoinsLost     Harm = "coins lost"
	CoinsMade     Harm = "coins made"
	ItemLost      Harm = "item lost"  // nobody has it
	SoldTwice     Harm = "sold twice" // an item has two owners, was bought and is for sale, or was confirmed twice
)

// Harms lists them, the worst last.
func Harms() []Harm {
	return []Harm{
		NoHarm, TwoHolders, PurchasesGone, ToldNo, ToldYes, ChargedTwice, NotPaid, Overdrawn, CoinsLost, CoinsMade,
		ItemLost, SoldTwice,
	}
}

// KeptOut is how long others were kept out in a scenario while nobody worked under the lock, as it was measured.
type KeptOut string

// How long that may be. Where several clients tried, it is the longest.
const (
	NotAsked        KeptOut = "not asked"                   // the scenario does not measure it
	NoLease         KeptOut = "no lease"                    // the scheme holds nothing, and nobody waited
	AtOnce          KeptOut = "at once"                     // nobody waited
	LeaseRanOut     KeptOut = "until the lease ran out"     // of the holder, or of a lock that nobody knows to be theirs
	CounterCaughtUp KeptOut = "until the counter caught up" // that numbers the holders of a lock, and had begun anew
	GaveUp          KeptOut = "until a waiter gave up"      // who held what others waited for
	HolderBack      KeptOut = "until the holder came back"  // who was paused, stuck or cut off for several leases
	OrdersFail      KeptOut = "their orders fail"           // at once, instead of waiting
	NeverIn         KeptOut = "never while observed"        // an order gave up, and the next was kept out too

	// PassedOver is about a waiter who was first in line, while nobody held the lock.
	PassedOver KeptOut = "until the dead waiter was passed over"
)

// KeptOuts lists them, the longest last.
func KeptOuts() []KeptOut {
	return []KeptOut{
		NotAsked, NoLease, AtOnce, PassedOver, LeaseRanOut, CounterCaughtUp, GaveUp, HolderBack, OrdersFail, NeverIn,
	}
}

// Measured reports whether Finding.Leases says how long that was.
func (k KeptOut) Measured() bool { return k == PassedOver || k == LeaseRanOut || k == GaveUp }

// A Verdict sums a finding up: its harm, or without any, how long others were kept out.
type Verdict string

// The verdicts, besides those that are a Harm.
const (
	Stopped        Verdict = "stopped"          // the run ended before this was found
	Unavailable    Verdict = "not played"       // this machine, or the lock, lacks what the scenario needs
	NotApplicable  Verdict = "not applicable"   // the scenario cannot happen to this scheme
	Safe           Verdict = "safe"             // nothing was lost, and nobody was kept out
	StuckForTTL    Verdict = "stuck, its TTL"   // nobody got in until a lease had run out
	StuckUnbounded Verdict = "stuck, unbounded" // nobody got in until something happened that no lease bounds
	Failing        Verdict = "orders fail"      // nobody waits for the lock: orders fail at once
	StuckForGood   Verdict = "stuck for good"   // nobody got in: an order gave up, and the next was kept out too
)

// Verdicts lists them, the worst last.
func Verdicts() []Verdict {
	all := []Verdict{Stopped, Unavailable, NotApplicable, Safe, StuckForTTL, StuckUnbounded, Failing, StuckForGood}
	for _, h := range Harms()[1:] {
		all = append(all, Verdict(h))
	}
	return all
}

// VerdictOf sums up what was observed, and nothing else.
func VerdictOf(h Harm, k KeptOut) Verdict {
	switch {
	case h != NoHarm:
		return Verdict(h)
	case k == PassedOver || k == LeaseRanOut:
		return StuckForTTL
	case k == CounterCaughtUp || k == GaveUp || k == HolderBack:
		return StuckUnbounded
	case k == OrdersFail:
		return Failing
	case k == NeverIn:
		return StuckForGood
	}
	return Safe
}

// Harm reports whether coins or items were wrong, or could have been.
func (v Verdict) Harm() bool { return slices.Contains(Harms()[1:], Harm(v)) }

// A Finding is what one scenario did to one scheme, a strategy with its lock.
type Finding struct {
	Scenario string  `json:"scenario"`
	Subject  string  `json:"subject"` // the scheme
	Verdict  Verdict `json:"verdict"`
	// Harm and KeptOut are what was observed. Both are empty where nothing was, and in older files.
	Harm    Harm    `json:"harm,omitempty"`
	KeptOut KeptOut `json:"kept_out,omitempty"`
	Why     string  `json:"why"` // one line
	// Leases is how many leases others were kept out for, to half a one, and counted from when the lease began. It is
	// not the same each time: 0.5 more or less is as good. 0 where KeptOut is not Measured, and in older files.
	Leases float64 `json:"leases,omitempty"`
	// Broken is the promise of the lock that the verdict breaks; empty: none.
	Broken string `json:"broken_promise,omitempty"`
	// Gone is how many purchases were acknowledged and then lost by the server, and
	// SecondsWithoutService how long it was from the last purchase that was acknowledged before a failure to the first one
	// after it, which is not the same each time. Both are 0 where the scenario does not ask.
	Gone                  int     `json:"gone,omitempty"`
	SecondsWithoutService float64 `json:"seconds_without_service,omitempty"`
	// Kept says why the finding was not made again when it should have been, and is of an earlier run; empty: it is not.
	Kept string `json:"kept,omitempty"`
}

// observed reports whether the scenario was played, or cannot happen.
func (f Finding) observed() bool { return f.Verdict != Stopped && f.Verdict != Unavailable }

// consistent reports whether what was observed is known and goes with the verdict, or is not there.
func (f Finding) consistent() bool {
	if f.Harm == "" && f.KeptOut == "" {
		return true
	}
	return slices.Contains(Harms(), f.Harm) && slices.Contains(KeptOuts(), f.KeptOut) &&
		f.Verdict == VerdictOf(f.Harm, f.KeptOut)
}

// FaultsSchema is the version of the faults.json format. Fields are added, never renamed.
const FaultsSchema = 1

// Faults are the findings of scenarios as they are stored. They hold no times and no addresses: the same marketsim on
// the same machine finds the same again, byte by byte.
type Faults struct {
	Schema    int            `json:"schema"`
	Status    Status         `json:"status"`
	Manifest  FaultsManifest `json:"manifest"`
	Scenarios []Scenario     `json:"scenarios"`
	Subjects  []string       `json:"subjects"` // names of schemes, in the order in which they are shown
	Findings  []Finding      `json:"findings"` // scenario by scenario, one for each subject
}

// FaultsManifest says which program and which server made the findings.
type FaultsManifest struct {
	Version       string `json:"version"` // marketsim's
	Go            string `json:"go"`
	OS            string `json:"os"`      // GOOS/GOARCH
	Backend       string `json:"backend"` // of the market: local or embedded
	Server        string `json:"server"`  // redis, valkey or miniredis
	ServerVersion string `json:"server_version"`
}

// Scenario is a scenario as it is stored.
type Scenario struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Promise string `json:"promise,omitempty"` // of a lock, that says that it survives this
}

// that are the findings of which something holds.
func (r *Faults) that(holds func(Finding) bool) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return !holds(f) })
}

// Of returns the findings of a scenario.
func (r *Faults) Of(scenario string) []Finding {
	return r.that(func(f Finding) bool { return f.Scenario == scenario })
}

// finding is that of a scenario with a subject; an empty one where there is none.
func (r *Faults) finding(scenario, subject string) Finding {
	for _, f := range r.Findings {
		if f.Scenario == scenario && f.Subject == subject {
			return f
		}
	}
	return Finding{Verdict: Stopped}
}

// Keep takes over into a new result what was observed before, so that only what is missing is played: it leaves as stopped
// what was not observed or is marked as kept, and each cell of the scenarios and subjects that are named, if any are. It is
// an error to name one that the result does not have.
func (r *Faults) Keep(before *Faults, scenarios, subjects []string) error {
	for _, name := range scenarios {
		if !slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.Name == name }) {
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
		if was := before.finding(f.Scenario, f.Subject); was.observed() && was.Kept == "" && !again {
			r.Findings[i] = was
		}
	}
	return nil
}

// Restore puts back what was observed before where this machine has now observed nothing, and marks it as kept. It
// returns how many findings these are. The manifest stays that of the table.
func (r *Faults) Restore(before *Faults) (kept int) {
	r.Manifest = before.Manifest
	for i, f := range r.Findings {
		if was := before.finding(f.Scenario, f.Subject); !f.observed() && was.observed() {
			r.Findings[i], r.Findings[i].Kept = was, f.Why
			kept++
		}
	}
	return kept
}

// Kept is how many findings are of an earlier run, because they could not be made again.
func (r *Faults) Kept() int { return len(r.that(func(f Finding) bool { return f.Kept != "" })) }

// Missing is how many findings of each scenario the end of a run prevented, or its beginning has to wait for.
func (r *Faults) Missing() map[string]int {
	missing := map[string]int{}
	for _, f := range r.Findings {
		if f.Verdict == Stopped {
			missing[f.Scenario]++
		}
	}
	return missing
}

// Found is how many findings there are that no end of the run prevented.
func (r *Faults) Found() int {
	return len(r.that(func(f Finding) bool { return f.Verdict != Stopped }))
}

// Broken returns the findings in which a lock broke a promise of its own.
func (r *Faults) Broken() []Finding { return r.that(func(f Finding) bool { return f.Broken != "" }) }

// Write stores the result as indented JSON.
func (r *Faults) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	return nil
}

// ReadFaults reads what Write stored. It refuses what Write would not have stored: another schema, an unknown status or
// verdict, a finding of no scenario or subject, one that is there twice or missing, and trailing data.
func ReadFaults(r io.Reader) (*Faults, error) {
	var res Faults
	err := decode(r, &res, "marketsim faults --out")
	if err == nil {
		err = res.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	return &res, nil
}

func (r *Faults) check() error {
	if r.Schema != FaultsSchema {
		return fmt.Errorf("schema %d; this marketsim reads schema %d", r.Schema, FaultsSchema)
	}
	if err := r.Status.check(); err != nil {
		return err
	}
	found := map[[2]string]bool{}
	for _, f := range r.Findings {
		cell := [2]string{f.Scenario, f.Subject}
		switch {
		case !slices.Contains(Verdicts(), f.Verdict):
			return fmt.Errorf("unknown verdict %q of scenario %q with %q", f.Verdict, f.Scenario, f.Subject)
		case !f.consistent():
			return fmt.Errorf("scenario %q with %q: harm %q and kept_out %q do not go with the verdict %q", f.Scenario,
				f.Subject, f.Harm, f.KeptOut, f.Verdict)
		case f.Verdict == Stopped && r.Status == Complete:
			return fmt.Errorf("scenario %q with %q was stopped in a result that says it is complete", f.Scenario, f.Subject)
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
			case r.Status == Complete:
				return fmt.Errorf("scenario %q with %q is missing from a result that says it is complete", sc.Name, s)
			}
		}
	}
	if cells != len(found) {
		return errors.New("a finding names a scenario or a subject that the result does not list, or one is listed twice")
	}
	return nil
}

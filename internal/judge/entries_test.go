package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// A harm has its own count of schedules, of all that were played; the entry that nothing else
// was found in has those of the last bounds.
func TestEntriesCountHarms(t *testing.T) {
	freed := search.Found{Violation: verify.Violation{Harm: verify.FreedAnothers}, Harmful: 2}
	outlived := search.Found{Violation: verify.Violation{Harm: verify.Outlived}, Harmful: 7}
	r := ProgramResult{Summary: search.Summary{
		Schedules: 40, Played: 50, Harmful: 8, Found: []search.Found{freed, outlived},
	}}
	r.asked = time.Second
	r.shortest = 900 * time.Millisecond
	r.longest = 1050 * time.Millisecond

	got := ""
	for _, e := range (Options{Command: []string{"lock"}}).entries(r) {
		want := findings.JudgedLease{AskedMS: 1000, ShortestMS: 900, LongestMS: 1050}
		if *e.Lease != want {
			t.Errorf("%s: the lease is stored as %+v, want %+v", e.Harm, *e.Lease, want)
		}
		got += fmt.Sprintf("%s: %d of %d; ", e.Harm, e.Harmful, e.Schedules)
	}
	if want := "freed another's: 2 of 50; outlived its lease: 7 of 50; : 8 of 40; "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A clock that is wrong is to blame only for harm that does not come with right ones.
func TestHarmThatNeedsNoClock(t *testing.T) {
	entry := func(program string, harm verify.Harm, broken string) findings.Exploration {
		e := findings.Exploration{Program: program}
		e.Harm = harm
		e.Broken = broken
		return e
	}
	before := []findings.Exploration{
		entry(locks, verify.FenceRepeats, fenced),
		entry(works, verify.NoHarm, ""),
	}
	all := withoutClocks([]findings.Exploration{
		entry(clockAhead, verify.FenceRepeats, clockIndependent),
		entry(clockAhead, verify.TwoHolders, clockIndependent),
		entry(clockAhead, verify.Outlived, ""),
	}, before)

	for i, want := range []string{fenced, clockIndependent, ""} {
		if all[i].Broken != want {
			t.Errorf("%s breaks %q, want %q", all[i].Harm, all[i].Broken, want)
		}
	}
}

// A lock without a lease is stored with how long its holder was seen to keep it.
func TestLeaseThatIsNone(t *testing.T) {
	kept := ProgramResult{asked: time.Second, keeps: 6 * time.Second}
	if got, want := kept.lease(), (findings.JudgedLease{AskedMS: 1000, KeptMS: 6000}); got == nil || *got != want {
		t.Errorf("it is stored as %+v, want %+v", got, want)
	}
	if says := kept.leases(); !strings.Contains(says, "none was seen") || !strings.Contains(says, "LOCK_TTL_MS = 1000") {
		t.Error(says)
	}
	if unmeasured := (ProgramResult{asked: time.Second}).lease(); unmeasured != nil {
		t.Errorf("a lease that nobody has measured: %+v", unmeasured)
	}
}

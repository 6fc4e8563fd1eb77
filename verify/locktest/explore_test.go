package locktest

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// without skips a lock that takes long to explore, unless MARKETSIM_EXPLORE is set.
func without(t *testing.T, long bool) {
	if long && os.Getenv("MARKETSIM_EXPLORE") == "" {
		t.Skip("takes long: explored with MARKETSIM_EXPLORE=two")
	}
}

// withoutCancel are the faults that strike by default, but for explore.Cancel: with it a search
// takes half as long again, and what it finds in locks has tests of its own.
var withoutCancel = []explore.Fault{
	explore.Pause, explore.Die, explore.Lose, explore.Late, explore.Drop, explore.Split,
}

// Explore finds each flaw that a lock has, and no other.
func TestExplore(t *testing.T) {
	freesAnothers := []verify.Harm{verify.FreedAnothers, verify.Orphaned, verify.Outlived}
	sound := []verify.Harm{verify.Orphaned, verify.Outlived}
	all := []verify.Harm{verify.FreedAnothers, verify.Outlived, verify.TwoHolders}
	// A release is lost, or was not replicated.
	andOrphaned := []verify.Harm{verify.FreedAnothers, verify.Orphaned, verify.Outlived, verify.TwoHolders}
	for name, test := range map[string]struct {
		open  Open
		of    []explore.Fault
		harms []verify.Harm // sorted
	}{
		"DEL":              {own(setPX, del), withoutCancel, freesAnothers},
		"GET, then DEL":    {own(setPX, getThenDel), withoutCancel, freesAnothers},
		"script":           {own(setPX, compareAndDelete), nil, sound},
		"SET, then GET":    {own(setPXThenGet, compareAndDelete), withoutCancel, sound},
		"EXISTS, then SET": {own(existsThenSet, compareAndDelete), withoutCancel, andOrphaned},
		"no expiry":        {own(setNX, compareAndDelete), withoutCancel, []verify.Harm{verify.LockedOut}},
		// A take that arrives when its client has given back what it may have taken:
		// nobody has the lock, for good.
		"no expiry, late": {own(setNX, compareAndDelete), []explore.Fault{explore.Late}, []verify.Harm{verify.LockedOut}},
		"script, late":    {own(setPX, compareAndDelete), []explore.Fault{explore.Late}, sound},
		"starts empty":    {own(setPX, compareAndDelete), []explore.Fault{explore.Empty}, all},
		"lagging replica": {own(setPX, compareAndDelete), []explore.Fault{explore.Behind}, andOrphaned},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, name != "starts empty")
			found := map[verify.Harm]bool{}
			all := searchAll(t, works, test.open, explore.Bounds{Preemptions: 1, Faults: 1, Kinds: test.of}, nil)
			for _, r := range all {
				for _, f := range r.Found {
					found[f.Harm] = true
				}
			}

			if harms := slices.Sorted(maps.Keys(found)); !slices.Equal(harms, test.harms) {
				t.Errorf("found %q, want %q\n%s", harms, test.harms, all)
			}
		})
	}
}

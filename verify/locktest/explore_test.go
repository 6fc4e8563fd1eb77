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

// Explore finds each flaw that a lock has, and no other.
func TestExplore(t *testing.T) {
	all := []verify.Harm{verify.FreedAnothers, verify.Outlived, verify.TwoHolders}
	for name, test := range map[string]struct {
		open  Open
		of    []explore.Fault
		harms []verify.Harm // sorted
	}{
		"DEL":              {own(setPX, del), nil, []verify.Harm{verify.FreedAnothers, verify.Outlived}},
		"GET, then DEL":    {own(setPX, getThenDel), nil, []verify.Harm{verify.FreedAnothers, verify.Outlived}},
		"script":           {own(setPX, compareAndDelete), nil, []verify.Harm{verify.Outlived}},
		"SET, then GET":    {own(setPXThenGet, compareAndDelete), nil, []verify.Harm{verify.Outlived}},
		"EXISTS, then SET": {own(existsThenSet, compareAndDelete), nil, all},
		"no expiry":        {own(setNX, compareAndDelete), nil, []verify.Harm{verify.LockedOut}},
		// A take that arrives when its client has given back what it may have taken:
		// nobody has the lock, for good.
		"no expiry, late": {own(setNX, compareAndDelete), []explore.Fault{explore.Late}, []verify.Harm{verify.LockedOut}},
		"script, late":    {own(setPX, compareAndDelete), []explore.Fault{explore.Late}, []verify.Harm{verify.Outlived}},
		"starts empty":    {own(setPX, compareAndDelete), []explore.Fault{explore.Empty}, all},
		"lagging replica": {own(setPX, compareAndDelete), []explore.Fault{explore.Behind}, all},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, !slices.Contains([]string{"GET, then DEL", "starts empty"}, name))
			found := map[verify.Harm]bool{}
			all := searchAll(t, works, test.open, explore.Bounds{Preemptions: 1, Faults: 1, Kinds: test.of})
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

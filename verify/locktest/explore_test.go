package locktest

import (
	"maps"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/verify/explore"
)

// Each flaw is found that a lock has, and no other.
func TestExplore(t *testing.T) {
	for name, test := range map[string]struct {
		open  Open
		of    []explore.Fault
		kinds []string // by what is found
	}{
		"DEL":              {own(setPX, del), nil, []string{Freed, Outlived}},
		"GET, then DEL":    {own(setPX, getThenDel), nil, []string{Freed, Outlived}},
		"script":           {own(setPX, compareAndDelete), nil, []string{Outlived}},
		"EXISTS, then SET": {own(existsThenSet, compareAndDelete), nil, []string{Freed, Outlived, TwoInside}},
		"no expiry":        {own(setNX, compareAndDelete), nil, []string{KeptOut}},
		"starts empty":     {own(setPX, compareAndDelete), []explore.Fault{explore.Empty}, []string{Freed, TwoInside}},
		"lagging replica":  {own(setPX, compareAndDelete), []explore.Fault{explore.Behind}, []string{Freed, TwoInside}},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]bool{}
			r := explored(t, test.open, explore.Bounds{Preemptions: 1, Faults: 1, Of: test.of})
			for _, f := range r.Found {
				found[f.Kind] = true
			}
			if kinds := slices.Sorted(maps.Keys(found)); !slices.Equal(kinds, test.kinds) {
				t.Errorf("found %q, want %q\n%s", kinds, test.kinds, r)
			}
		})
	}
}

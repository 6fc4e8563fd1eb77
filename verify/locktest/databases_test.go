package locktest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A lock in another database than the first is judged as it is in the first: one that is
// sound passes, and what is wrong with one that is not is found, in as many schedules.
func TestExploreInAnotherDatabase(t *testing.T) {
	one := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: withoutCancel}
	faultless := explore.Bounds{Preemptions: 1}
	few := faultless
	few.Faults = 1
	few.Kinds = []explore.Fault{explore.Pause, explore.Lose}
	striking := faultless
	striking.Faults = 1
	striking.Kinds = []explore.Fault{explore.Behind, explore.Empty}

	script := func(database int) Open {
		return ownIn(database, setPX, compareAndDelete)
	}
	deletes := func(database int) Open {
		return ownIn(database, setPX, del)
	}
	list := func(database int) Open {
		return poppedIn(database, false)
	}
	// A replica may lack a release.
	replaced := []verify.Harm{verify.FreedAnothers, verify.Orphaned, verify.TwoHolders}

	for name, test := range map[string]struct {
		open   func(database int) Open
		works  []work
		bounds explore.Bounds
		harms  []verify.Harm // sorted
	}{
		"script":       {script, works[:1], few, []verify.Harm{verify.Orphaned, verify.Outlived}},
		"script, all":  {script, works, one, []verify.Harm{verify.Orphaned, verify.Outlived}},
		"script, work": {script, works[1:3], faultless, []verify.Harm{verify.Outlived}},
		"DEL": {
			deletes, works[2:3], faultless, []verify.Harm{verify.FreedAnothers, verify.Outlived},
		},
		"list":                {list, works[:2], faultless, nil},
		"empty, or a replica": {script, works[:1], striking, replaced},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, name == "script, all")
			want, _ := judged(t, test.works, test.open(0), test.bounds)
			got, harms := judged(t, test.works, test.open(1), test.bounds)

			if got != want {
				t.Errorf("in database 1:\n%sin database 0:\n%s", got, want)
			}
			if !slices.Equal(harms, test.harms) {
				t.Errorf("in database 1 it finds %q, want %q\n%s", harms, test.harms, got)
			}
		})
	}
}

// judged is what is found in a lock, with how many schedules, and the harms, each once. How
// many schedules do harm depends a little on which are played on beside their twins.
func judged(
	t *testing.T, works []work, open Open, b explore.Bounds) (text string, harms []verify.Harm) {

	t.Helper()
	for _, r := range searchAll(t, works, open, b, nil) {
		text += fmt.Sprintf("%s: %d schedules:", r.Program.Name, r.Schedules)
		for _, f := range r.Found {
			text += fmt.Sprintf(" %s with %d preemptions and %d faults", f.Harm, f.Preemptions, f.Faults)
			harms = append(harms, f.Harm)
		}
		text += "\n"
	}
	slices.Sort(harms)
	return text, slices.Compact(harms)
}

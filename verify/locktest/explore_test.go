package locktest

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/suite"
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
	andOrphaned := []verify.Harm{
		verify.FreedAnothers, verify.Orphaned, verify.Outlived, verify.TwoHolders,
	}
	lockedOut := []verify.Harm{verify.LockedOut}
	late := []explore.Fault{explore.Late}

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
		"no expiry":        {own(setNX, compareAndDelete), withoutCancel, lockedOut},
		// A take that arrives when its client has given back what it may have taken:
		// nobody has the lock, for good.
		"no expiry, late": {own(setNX, compareAndDelete), late, lockedOut},
		"script, late":    {own(setPX, compareAndDelete), late, sound},
		"starts empty":    {own(setPX, compareAndDelete), []explore.Fault{explore.Empty}, all},
		"lagging replica": {own(setPX, compareAndDelete), []explore.Fault{explore.Behind}, andOrphaned},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, name != "starts empty")
			bounds := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: test.of}
			all := searchAll(t, works, test.open, bounds, nil)
			if harms := harmsOf(all); !slices.Equal(harms, test.harms) {
				t.Errorf("found %q, want %q\n%s", harms, test.harms, all)
			}
		})
	}
}

// foundOf is what all reports have found.
func foundOf(reports []*explore.Report) (found []explore.Found) {
	for _, r := range reports {
		found = append(found, r.Found...)
	}
	return found
}

// harmsOf are the harms of all reports, each once, sorted.
func harmsOf(reports []*explore.Report) (harms []verify.Harm) {
	for _, f := range foundOf(reports) {
		harms = append(harms, f.Harm)
	}
	slices.Sort(harms)
	return slices.Compact(harms)
}

// Goroutines that a client has after its last release, and did not have before its first take,
// are told with their stacks.
func TestGoroutinesThatStayAreTold(t *testing.T) {
	suite.SearchesAlone(t)
	sound := own(setPX, compareAndDelete)
	leaks := func(life context.Context, w Worker) (Lock, io.Closer, error) {
		locks, closer, err := sound(life, w)
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			go waitsForTheEnd(life)
			return locks(ctx, name)
		}, closer, err
	}

	for name, open := range map[string]Open{"sound": sound, "leaks": leaks} {
		left := map[string]bool{}
		p := program(t.Name(), open, works[0], func(client, stack string) {
			left[client+" "+stack] = true
		})
		if _, err := explore.Search(t.Context(), p, explore.Bounds{}); err != nil {
			t.Fatal(err)
		}

		isLeak := func(stack string) bool {
			return strings.Contains(stack, "waitsForTheEnd")
		}
		told := slices.Collect(maps.Keys(left))
		leaked := slices.ContainsFunc(told, isLeak)
		if leaked != (name == "leaks") || len(told) > 0 != leaked {
			t.Errorf("%s: %q", name, told)
		}
	}
}

func waitsForTheEnd(life context.Context) { <-life.Done() }

// A lock that is renewed until it has been released keeps others out for as long as its client
// lives, if a release is given up and never called again: that is a note. One whose renewal
// ends with the first try keeps them out until its lease ends.
func TestReleaseThatIsNeverRepeated(t *testing.T) {
	i := slices.IndexFunc(works, func(w work) bool {
		return w.once
	})
	bounds := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Cancel}}

	for name, test := range map[string]struct {
		open  Open
		harms []verify.Harm // sorted
	}{
		"renews until it is released": {released(false), []verify.Harm{verify.RenewsOn}},
		"ends its renewal": {
			watched{renewal: renewed, every: lease / 3}.open, []verify.Harm{verify.Orphaned},
		},
		"is not renewed": {own(setPX, compareAndDelete), []verify.Harm{verify.Orphaned}},
		"never expires":  {own(setNX, compareAndDelete), []verify.Harm{verify.LockedOut}},
	} {
		t.Run(name, func(t *testing.T) {
			text, harms := judged(t, works[i:i+1], test.open, bounds)
			if !slices.Equal(harms, test.harms) {
				t.Errorf("it finds %q, want %q\n%s", harms, test.harms, text)
			}
		})
	}
}

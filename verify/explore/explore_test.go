package explore_test

import (
	"os"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify/explore"
)

func TestMain(m *testing.M) {
	// searches are one after the other; what is played on real servers mostly waits
	testkit.MaxParallel(8)
	os.Exit(m.Run())
}

// programOf makes a program for a spec.
func programOf(t *testing.T, text, name string) (explore.Program, suite.Market) {
	t.Helper()
	m, known := suite.MarketNamed(name)
	if !known {
		t.Fatalf("there is no program %q", name)
	}
	spec := testkit.Must(m.Spec(catalogue.Full(), text))(t)
	return m.Program(spec.String(), spec.OpenFor), m
}

// takesLong are the wants, by spec and program, that are left out unless
// explore.SearchesAll.
var takesLong = []string{
	"fine:fenced:fencing=on:idempotent=on relisted", "fine-wallet one-account",
	"fine:set-ex-fixed listing", "watch relisted", "fine one-item",
	"fine:fenced:fencing=on locks-apart",
}

// wants are what a search finds of a spec in a program: the fewest preemptions
// and faults; -1: nothing.
var wants = []struct {
	spec, program       string
	preemptions, faults int
}{
	{"unsafe", "one-item", 1, 0},
	{"claim", "one-item", 0, 1},
	{"watch", "one-item", -1, 0},
	{"lua", "one-item", -1, 0},
	{"fine:exists-set", "one-item", 2, 0},
	{"fine:set-ex-compare", "one-item", 0, 1},
	{"fine:set-px", "one-item", 0, 1},
	{"fine:set-px:fencing=token", "one-item", -1, 0},
	{"fine:redislock", "one-item", 0, 1},
	{"fine:redsync", "one-item", 0, 1},
	{"fine", "one-item", 1, 1}, // a late write breaks a lock that never expires, too
	{"fine", "one-item-long-leases", 0, 1},
	// What a library sends again buys what was not meant, and so does a late copy.
	{"lua", "relisted", 0, 1},
	{"lua:idempotent=on", "relisted", 1, 1},
	{"fine:fenced:fencing=on:idempotent=on", "relisted", -1, 0},
	{"watch", "relisted", -1, 0},
	{"fine:setnx:write=pipeline", "one-item", 0, 1},
	{"fine:set-px:fencing=token", "one-item-long-leases", -1, 0},
	{"lua", "one-item-long-leases", -1, 0},
	{"fine", "one-account", 1, 0},
	{"fine-wallet", "one-account", 1, 1},
	{"fine:set-ex-fixed", "listing", 0, 1},
	{"fine:set-px", "locks-apart", 0, 1},
	{"fine:fenced:fencing=on", "locks-apart", 1, 1}, // the counter begins again, and both are number 1
	{"fine:set-px:fencing=token", "locks-apart", -1, 0},
}

// Requests that conflict with none are delivered at once, which leaves out
// schedules and no harm.
func TestReduction(t *testing.T) {
	for _, text := range []string{
		"unsafe", "claim", "watch-item", "lua", "fine:set-px", "fine:set-ex-compare",
	} {
		p, _ := programOf(t, text, "one-item")
		b := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Pause, explore.Die}}
		reduced := explore.Run(t, p, b)
		b.Unreduced = true
		whole := explore.Run(t, p, b)
		sameBounds := reduced.Preemptions == whole.Preemptions && reduced.Faults == whole.Faults
		sameHarms := len(reduced.Found) == len(whole.Found)
		if reduced.Schedules > whole.Schedules || !sameBounds || !sameHarms {
			t.Errorf("%s: with the reduction %s\nwithout %s", text, reduced.Bound(), whole.Bound())
		}
	}
}

// A replica that lags behind a server with subscribers ends with its schedule.
func TestBehindSubscriptions(t *testing.T) {
	p, _ := programOf(t, "fine:redisson", "locks-apart")
	behind := []explore.Fault{explore.Behind}
	r := explore.Run(t, p, explore.Bounds{Preemptions: 1, Faults: 1, Kinds: behind, Exhaustive: true})
	if r.Preemptions != 1 || len(r.Found) == 0 {
		t.Error(r)
	}
}

// TestFinds compares what is found in the first bounds with what is known of the specs:
// of those that take long with MARKETSIM_EXPLORE only.
func TestFinds(t *testing.T) {
	for _, want := range wants {
		name := want.spec + " " + want.program
		t.Run(name, func(t *testing.T) {
			if slices.Contains(takesLong, name) && !explore.SearchesAll() {
				t.Skip("takes long: searched with MARKETSIM_EXPLORE=two")
			}

			p, m := programOf(t, want.spec, want.program)
			b := explore.Bounds{Preemptions: max(1, want.preemptions), Faults: 1}
			if len(m.Traders) > 2 {
				b.Preemptions = 0 // harm comes without
			}

			r := explore.Run(t, p, b)
			switch {
			case want.preemptions < 0 && len(r.Found) > 0 || want.preemptions >= 0 && len(r.Found) == 0:
				t.Error(r)
			case len(r.Found) > 0 &&
				(r.Found[0].Preemptions != want.preemptions || r.Found[0].Faults != want.faults):

				t.Errorf("want %d preemptions and %d faults\n%s", want.preemptions, want.faults, r)
			default:
				t.Log(r)
			}
		})
	}
}

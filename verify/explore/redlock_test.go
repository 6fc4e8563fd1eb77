package explore_test

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify/explore"
)

var update = flag.Bool("update", false,
	"with -run '^TestRedlock$': store what is found in results/explored")

const storeAgain = "go test ./verify/explore -run '^TestRedlock$' -timeout 60m -update"

const (
	redlockStored = "../../results/explored/redlock.json"
	threeMasters  = "three-masters"
)

// A looked is one search among three masters, of the faults that it names:
// every one, if it names none.
type looked struct {
	scheme string
	faults int
	of     []explore.Fault
}

// redlockLooks are the searches with two clients and one preemption: each fault alone,
// and two faults that do no harm alone, of different kinds or of the same. Two faults
// take minutes. The last rows are of a mend.
func redlockLooks() (all []looked) {
	for _, f := range explore.Faults() {
		switch f {
		case explore.Behind, explore.Split: // there is no replica, and its clients send no pipelines
		case explore.Clock:
			all = append(all, looked{"redlock:clock=wall", 1, []explore.Fault{f}})
		default:
			all = append(all, looked{"redlock", 1, []explore.Fault{f}})
		}
	}

	const (
		lose  = explore.Lose
		drop  = explore.Drop
		die   = explore.Die
		empty = explore.Empty
		clock = explore.ServerClock
	)

	for _, pair := range [][]explore.Fault{
		{empty, lose}, {empty, drop}, {empty, die}, {empty}, {empty, clock},
		{clock, lose}, {clock, drop}, {clock},
	} {
		all = append(all, looked{"redlock", 2, pair})
	}

	return append(all, looked{"redlock:fencing=token", 1, nil},
		looked{"redlock:fencing=token", 2, []explore.Fault{empty, drop}})
}

// search goes through its schedules.
func (l looked) search(t *testing.T) findings.Exploration {
	t.Helper()
	scheme := testkit.Must(fault.SchemeOf(catalogue.Full(), l.scheme))(t)
	p, _ := programOf(t, scheme.Spec.String(), threeMasters)
	bounds := explore.Bounds{
		Preemptions: 1, Faults: l.faults, Kinds: l.of, Once: len(l.of) == l.faults,
	}
	r := testkit.Must(explore.Search(t.Context(), p, bounds))(t)

	e := findings.Exploration{
		Scheme: l.scheme, Program: p.Name, Searched: findings.Searched{
			Preemptions: r.Preemptions, Faults: r.Faults, Schedules: r.Schedules, Merged: r.Merged,
			Harmful: r.Harmful, Complete: r.Complete,
		},
	}

	if len(r.Found) > 0 {
		e.Shortest(r.Found[0].Violation, r.Found[0].Preemptions, r.Found[0].Faults, r.Found[0].Token)
	}

	for _, f := range l.of {
		e.Of = append(e.Of, string(f))
	}
	return e
}

// is reports whether something stored is what this search found.
func (l looked) is(e findings.Exploration) bool {
	same := func(f explore.Fault, name string) bool { return string(f) == name }
	bounded := e.Faults == l.faults || e.Harm != "" && e.Faults < l.faults
	return e.Scheme == l.scheme && bounded && slices.EqualFunc(l.of, e.Of, same)
}

// TestRedlock searches the schedules of Redlock with three masters, which are asked one
// after the other, and compares what it finds with what is stored. By default it searches
// with a pause and with a clock only, with MARKETSIM_EXPLORE with each fault alone. With
// -update it also makes the searches that are not stored.
func TestRedlock(t *testing.T) {
	var is []findings.Exploration
	if _, err := os.Stat(redlockStored); err == nil || !*update {
		is = read(t, redlockStored)
	}

	var all []findings.Exploration
	for _, l := range redlockLooks() {
		i := slices.IndexFunc(is, l.is)
		short := slices.Equal(l.of, []explore.Fault{explore.Pause}) ||
			slices.Equal(l.of, []explore.Fault{explore.Clock})
		again := short || explore.SearchesAll() && l.faults == 1

		switch {
		case i < 0 && !*update:
			t.Errorf("%+v is not stored: %s", l, storeAgain)
		case i < 0 || again:
			found := l.search(t)
			all = append(all, found)
			if !*update && !reflect.DeepEqual(found, is[i]) {
				t.Errorf("found %+v, and stored is %+v: %s", found, is[i], storeAgain)
			}
		default:
			all = append(all, is[i])
		}
	}

	if *update {
		write(t, redlockStored, all)
	}
}

// write stores what was found.
func write(t *testing.T, path string, all []findings.Exploration) {
	t.Helper()
	var text bytes.Buffer
	res := findings.Explorations{
		Schema: findings.ExplorationsSchema, Version: "(devel)", Searches: all,
	}
	err := res.Write(&text)
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each harm that is stored is done on real servers, too: a master that starts empty is
// one that is emptied, and a clock that steps is keys that expire as early. A machine
// that is too busy for the time that a master has to answer gets other tries.
func TestRedlockOnRealServers(t *testing.T) {
	var targets []redisconn.Target
	for range 4 {
		targets = append(targets, testkit.Local(t).Target)
	}

	played := 0
	for _, e := range read(t, redlockStored) {
		takesLong := slices.Equal(e.Of, []string{string(explore.Late)}) && !explore.SearchesAll()
		if e.Token == "" || takesLong {
			continue
		}

		subject, name, _, err := search.ParseToken(e.Token)
		if err != nil {
			t.Fatal(err)
		}

		p, _ := programOf(t, subject, name)
		one := testkit.Must(explore.PlayedToken(t, p, e.Token))(t)
		err = one.Real(t.Context(), targets...)
		for try := 0; try < 4 && err != nil; try++ {
			err = one.Real(t.Context(), targets...)
		}

		if err != nil {
			t.Errorf("%q: %v", e.Of, err)
		}
		played++
	}

	if played < 5 {
		t.Errorf("only %d harms are stored", played)
	}
}

// A program among three masters is for a lock that needs them, and for no other.
func TestMastersAreForRedlock(t *testing.T) {
	for _, m := range suite.Markets() {
		for spec, needs := range map[string]bool{
			"fine:redlock": true, "fine:set-px": false, "lua": false,
		} {
			_, err := m.Spec(catalogue.Full(), spec)
			if applies := err == nil; applies != (needs == (m.LockServers > 1)) {
				t.Errorf("%s in %s: %v", spec, m.Name, err)
			}
		}
	}
}

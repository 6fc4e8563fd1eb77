package explore

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/marketsim/marketsim/internal/backend"
)

// lateEnds are all ends of a program, whose late requests come at every point, or only once to
// nothing.
func lateEnds(p script, b Bounds, every bool) (ends, *Report, error) {
	all := ends{}
	p.observed = true
	e := newExplorer(p.program(all), b)
	e.everyArrival = every
	e.everyPoll = true // or which of them are choices would depend on what else is one
	e.silence = 2 * time.Minute
	r, err := e.search(context.Background())
	return all, r, err
}

// A late request comes to nothing once at most, and wherever it changes something: programs end
// in the same ways as if it came at every point. In the first one it comes to nothing as long
// as the key is there, and later not; in the second one it is given up early and does nothing.
func TestLateRequestsThatComeToNothing(t *testing.T) {
	planted := []script{
		{clients: [][]op{{"append", "set-nx", "delete", "get"}, {"append"}}},
		{clients: [][]op{{"append", "set-nx", "get", "append", "get"}, {"get", "get"}}},
	}
	fewer := 0
	for n := range len(planted) + randomChecks() {
		p, b := exampleOf(n)
		if n < len(planted) {
			p = planted[n]
		}
		b.Preemptions = min(b.Preemptions, 2)
		b.Faults = 1
		b.Kinds = []Fault{Late}

		want, every, err := lateEnds(p, b, true)
		if err != nil {
			t.Logf("%v: %v", p, err)
			continue
		}
		got, once, err := lateEnds(p, b, false)
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		fewer += every.Schedules - once.Schedules

		if end := differ(want, got); end != "" {
			t.Fatalf("%v: only with arrivals left out %t, only with all of them %t:\n%s",
				p, got[end], want[end], end)
		}
	}
	if fewer <= 0 {
		t.Errorf("%d schedules are left out", fewer)
	}
}

// A client's own late request may come just before one that conflicts with nothing that another
// client sends: here a SET before the GET that follows it, while the other client only reads.
func TestLateRequestsBeforeOnesOwn(t *testing.T) {
	p := script{clients: [][]op{{"delete", "set-nx", "get"}, {"get"}}, observed: true}
	search := func(unreduced bool) ends {
		all := ends{}
		b := Bounds{Preemptions: 1, Faults: 1, Kinds: []Fault{Late}, Exhaustive: true, Unreduced: unreduced}
		if _, err := newExplorer(p.program(all), b).search(t.Context()); err != nil {
			t.Fatal(err)
		}

		// The other client's request, where it waits for as long as the late one, times out, too.
		maps.DeleteFunc(all, func(end string, _ bool) bool {
			return strings.Count(end, "timeout") > 1
		})
		return all
	}

	want, got := search(true), search(false)
	if end := differ(want, got); end != "" {
		t.Errorf("with requests delivered at once %t, without %t:\n%s", got[end], want[end], end)
	}
}

// What a server holds is copied, and for how long; what cannot be copied is said.
func TestCopiesOfServers(t *testing.T) {
	fill := func(m *miniredis.Miniredis) *miniredis.RedisDB {
		db := m.DB(1)
		_ = db.Set("text", "a")
		db.SetTTL("text", time.Minute)
		db.HSet("hash", "field", "b", "other", "c")
		_, _ = db.Push("list", "second", "first", "second")
		_, _ = db.SetAdd("set", "one", "two")
		_, _ = db.ZAdd("zset", 1.5, "member")
		return db
	}

	m := backend.Memory()
	other := backend.Memory()
	_ = other.Set("from", "before")
	of := &Server{redis: m, databases: map[int]bool{0: true, 1: true}}
	db := fill(m)
	copied := &Server{redis: other, databases: of.databases}

	m.ClockTTL(false)
	if !copyTo(other, of) {
		t.Fatal("it is not copied")
	}

	other.ClockTTL(false)
	db.SetTTL("text", time.Minute)
	other.DB(1).SetTTL("text", other.DB(1).TTL("text").Round(time.Second))
	if was, is := of.held(), copied.held(); was != is {
		t.Errorf("copied is\n%s\nand was\n%s", is, was)
	}

	_, _ = db.XAdd("stream", "1-1", []string{"a", "b"})
	if copyTo(other, of) {
		t.Error("a stream is copied, whose groups nobody can see")
	}
}

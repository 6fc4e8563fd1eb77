package locktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/verify/explore"
)

// How long locks last while they are explored, and how long a client waits for one.
const (
	lease       = explore.Lease
	lockTimeout = 10 * time.Second
)

// A work is what a program has clients do inside. If it outlasts the lease, which
// then has to be renewed or runs out before its release, no fault is needed to show
// what is wrong with the lock.
type work struct {
	program string
	lasts   time.Duration
	meet    bool // one begins to take the lock at the moment at which the other is about to release it
	shared  bool // two readers of different leases come with a writer
	once    bool // a release that fails is not called once more
	extends bool // the lock after the work, and works as long again: see Extender
	leaves  bool // the other client leaves at once, though this one works
	// One client comes with two goroutines, which take the lock with one and the same Lock.
	goroutines bool
	only       explore.Fault // that strikes; empty: each that is asked for
}

// Those that extend come last: searchAll learns from the others whether a lock can be extended.
var works = []work{
	{program: "lock"},
	{program: "lock-met-at-release", lasts: lease / 2, meet: true},
	{program: "lock-work-of-1.5-leases", lasts: lease * 3 / 2},
	{program: "lock-work-of-3-leases", lasts: 3 * lease},
	{program: "lock-by-two-goroutines", lasts: twoGoroutinesWork, goroutines: true},
	{program: "lock-release-not-repeated", once: true, only: explore.Cancel},
	{program: "lock-extended", lasts: lease * 3 / 4, extends: true},
	{program: "lock-extended-after-its-lease", lasts: lease * 3 / 2, extends: true},
	{program: "lock-extended-after-anothers", lasts: lease * 3 / 2, extends: true, leaves: true},
}

// sharedWorks are those of a lock that readers share: one reader is inside when
// another's shorter lease has run out.
var sharedWorks = []work{
	{program: "readers", shared: true},
	{program: "readers-work-of-1.5-leases", lasts: lease * 3 / 2, shared: true},
}

// Explore goes through every schedule, within bounds, of two clients of a lock of your
// own. One locks twice, the other once. They leave at once, or work inside for up to 3
// leases. A release that fails is called once more, in all programs but one. Their users
// may give up (explore.Cancel): an attempt to lock then counts as failed, and a release is
// tried under a context that has ended. It needs no server, and its test must not be
// parallel. The test fails, and prints the shortest schedule when it is found, if
//
//   - two are inside ([verify.TwoHolders]), also when a client loses a lease
//     although it renews it,
//   - a release frees another client's lock ([verify.FreedAnothers]), or nothing
//     ([verify.ReleasedNothing]),
//   - a client that waits is kept out ([verify.LockedOut]) although nobody is inside
//     and nothing strikes: for two leases and its longest wait between two tries, or
//     for half a lease if it waits for a message; or a fresh client does not get in
//     within two leases of the end,
//   - two clients that have each taken something for the lock wait until they give up
//     ([verify.WaitForEachOther]), though nobody is inside and nothing strikes,
//   - a client still renews a lock, or changes another thing, within a lease of its last
//     release, or refusal, though nothing strikes in that time ([verify.StillRenews]),
//   - a client that extends its lock is told yes, though another one has had it since it took
//     it ([verify.ExtendedLost]): see [Extender].
//
// Two goroutines of one client also take the lock with one and the same Lock. What goes wrong
// then is logged only if the client is [Confined] ([verify.HeldByTwoGoroutines]).
//
// That a client outlives its lease ([verify.Outlived]), paused or at work while nobody
// renews it, is logged only, and so is that what a failed operation has left keeps others out
// until its lease ends ([verify.Orphaned]), or for as long as the client lives that renews it,
// if its release was given up and never called again ([verify.RenewsOn]): no lock that expires
// prevents it. If b.Kinds is nil, what strikes is Pause, Die, Lose, Late, Drop, Split and Cancel:
// servers forget locks only where it is named. As with b.Exhaustive, a search goes on after a
// harm. A schedule is given up if
// time has to pass while a goroutine waits for a sync.Mutex that another one holds: its
// goroutines stay.
//
// The log has the stacks of goroutines that a client still has a lease after its last release,
// and did not have when its lock had been opened, where nothing has struck.
//
// There are several such programs, and b bounds the search of each. A search ends shortly
// before the deadline of the test, which go test -timeout sets, or after b.Time. The test
// does not fail for that: its log, which go test -v shows, says how far each search has come
// and what lets it go on. With -v a line says every 10 s how far it is, too.
func Explore(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	searchAll(t, works, open, b, show(t))
}

// ExploreShared is Explore of a lock that readers share, as Worker.Shared says. One
// reader's leases last twice as long as those of the other and of the writer. For these
// three it has one preemption and one fault at most.
func ExploreShared(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	b.Preemptions, b.Faults = min(b.Preemptions, 1), min(b.Faults, 1)
	searchAll(t, sharedWorks, open, b, show(t))
}

// An onFound is told of each harm when it is found; nil: nobody is.
type onFound func(work, explore.Found)

// show prints a harm, and fails the test unless that is only a note: see verify.Harm.IsNote.
func show(t *testing.T) onFound {
	return func(w work, f explore.Found) {
		fmt.Fprintf(t.Output(), "%s: %s, with %d preemptions and %d faults\n\n%s\n",
			w.program, f.Harm, f.Preemptions, f.Faults, f.Diagram)
		if !f.Harm.IsNote() {
			t.Fail()
		}
	}
}

// isStruck reports whether the one fault that a work is about is searched; true of the others.
func (w work) isStruck(b explore.Bounds) bool {
	return w.only == "" || b.Faults > 0 && slices.Contains(b.Kinds, w.only)
}

// bounds are those of the search of a work. What is about one fault shows without a preemption.
func (w work) bounds(b explore.Bounds) explore.Bounds {
	if w.only != "" {
		b.Kinds = []explore.Fault{w.only}
		b.Preemptions = 0
	}
	return b
}

// searchAll searches the programs of several works, and logs how far each search has gone. It
// returns a report of each that was searched: not of a work that b or the lock leaves out, or
// in which two goroutines may come in either order.
func searchAll(
	t *testing.T, works []work, open Open, b explore.Bounds, found onFound,
) (all []*explore.Report) {
	t.Helper()
	suite.SearchesAlone(t)
	b.Exhaustive = true
	if b.Kinds == nil {
		b.Kinds = []explore.Fault{
			explore.Pause, explore.Die, explore.Lose, explore.Late,
			explore.Drop, explore.Split, explore.Cancel,
		}
	}

	// Whether a lock can be extended is known once one was opened: by then the searches of
	// other works, which stand before those that extend, have seen it.
	var canExtend atomic.Bool
	noting := func(ctx context.Context, w Worker) (Lock, io.Closer, error) {
		l, closer, err := open(ctx, w)
		if _, can := closer.(Extender); can {
			canExtend.Store(true)
		}
		return l, closer, err
	}
	for _, work := range works {
		if !work.isStruck(b) || work.extends && !canExtend.Load() {
			continue
		}
		r, err := search(t, noting, work.bounds(b), work, found)
		if work.goroutines && errors.Is(err, explore.ErrChance) {
			t.Logf("%s: two goroutines of one client wake at one instant, "+
				"and either may be first: %v", work.program, err)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", work.program, err)
		}
		t.Logf("%s: %s", work.program, suite.Bound(r))
		all = append(all, r)
	}
	return all
}

func search(
	t *testing.T, open Open, b explore.Bounds, w work, found onFound,
) (*explore.Report, error) {
	t.Helper()
	tell := func(f explore.Found) {
		if found != nil {
			found(w, f)
		}
	}

	// By stack: whose it is. Only clients of the first schedule write it, under exploring.mu.
	left := map[string]string{}
	p := program(t.Name(), open, w, func(client, stack string) {
		left[stack] = client
	})
	defer func() {
		for _, stack := range slices.Sorted(maps.Keys(left)) {
			t.Logf("%s: a lease after its last release %s still has a goroutine "+
				"that it did not have before, in\n%s",
				w.program, left[stack], stack)
		}
	}()
	return suite.Search(t, p, b, tell)
}

// program is what clients of a lock do. Its first schedule, in which nothing strikes, tells
// onLeft of goroutines that stay.
func program(subject string, open Open, w work, onLeft func(client, stack string)) explore.Program {
	isFirst := true
	begin := func(*explore.Server) *explore.Trial {
		e := newExploring(open, w)
		if isFirst {
			e.onLeft = onLeft
		}
		isFirst = false
		return e.trial()
	}
	return explore.Program{
		Name:     w.program,
		Subject:  subject,
		Masters:  true,
		Observed: true, // the rules ask Session.Seen
		Begin:    begin,
	}
}

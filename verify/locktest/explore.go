package locktest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backoff"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// lease is how long locks last while they are explored, and patient how long a
// client waits for one.
const lease, patient = explore.Lease, 10 * time.Second

// A work is what a program has clients do inside. If it outlasts the lease, which
// then has to be renewed or runs out before its release, no fault is needed to show
// what is wrong with the lock.
type work struct {
	program string
	lasts   time.Duration
	meet    bool // one begins to take the lock at the moment at which the other is about to release it
	shared  bool // two readers of different leases come with a writer
}

var works = []work{
	{program: "lock"},
	{program: "lock-met-at-release", lasts: lease / 2, meet: true},
	{program: "lock-work-of-1.5-leases", lasts: lease * 3 / 2},
	{program: "lock-work-of-3-leases", lasts: 3 * lease},
}

// sharedWorks are those of a lock that readers share: one reader is inside when
// another's shorter lease has run out.
var sharedWorks = []work{
	{program: "readers", shared: true},
	{program: "readers-work-of-1.5-leases", lasts: lease * 3 / 2, shared: true},
}

// Explore goes through every schedule, within bounds, of two clients of a lock of your
// own. One locks twice, the other once. They leave at once, or work inside for up to 3
// leases: b.Total is then, if it is 0, the larger other bound. It needs no server, and
// its test must not be parallel. The test fails, with the shortest schedule, if
//
//   - two are inside ([verify.TwoHolders]), also when a client loses a lease
//     although it renews it,
//   - a release frees another client's lock ([verify.FreedAnothers]), or nothing
//     ([verify.ReleasedNothing]),
//   - a client that waits is kept out ([verify.LockedOut]) although nobody is inside
//     and nothing strikes: for two leases and its longest wait between two tries, or
//     for half a lease if it waits for a message; or a fresh client does not get in
//     within two leases of the end.
//
// That a client outlives its lease ([verify.Outlived]), paused or at work while nobody
// renews it, is logged only: no lock that expires prevents it. Servers forget locks only
// if b.Kinds names that fault. A schedule is given up if time has to pass while a
// goroutine waits for a sync.Mutex that another one holds: its goroutines stay.
func Explore(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	report(t, explored(t, works, open, b))
}

// ExploreShared is Explore of a lock that readers share, as Worker.Shared says. One
// reader's leases last twice as long as those of the other and of the writer. For these
// three it has one preemption and one fault at most.
func ExploreShared(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	b.Preemptions, b.Faults = min(b.Preemptions, 1), min(b.Faults, 1)
	report(t, explored(t, sharedWorks, open, b))
}

// report fails the test with what was found, except for what no lock that expires prevents.
func report(t *testing.T, all []*explore.Report) {
	t.Helper()
	for _, r := range all {
		for _, f := range r.Found {
			say := t.Errorf
			if f.Harm == verify.Outlived {
				say = t.Logf
			}
			say("%s: %s, with %d preemptions and %d faults\n\n%s", r.Program.Name, f.Harm, f.Preemptions, f.Faults, f.Diagram)
		}
		t.Logf("%s: %s", r.Program.Name, r.Bound())
	}
}

func explored(t *testing.T, works []work, open Open, b explore.Bounds) (all []*explore.Report) {
	t.Helper()
	b.Exhaustive = true
	if b.Kinds == nil {
		b.Kinds = []explore.Fault{explore.Pause, explore.Die, explore.Lose, explore.Late, explore.Drop, explore.Split}
	}
	for i, work := range works {
		if i > 0 && b.Total == 0 {
			b.Total = max(1, b.Preemptions, b.Faults)
		}
		r, err := searched(t, open, b, work)
		if err != nil {
			t.Fatalf("%s: %v", work.program, err)
		}
		all = append(all, r)
	}
	return all
}

func searched(t *testing.T, open Open, b explore.Bounds, w work) (*explore.Report, error) {
	return explore.Search(t.Context(), explore.Program{
		Name: w.program, Subject: t.Name(), Masters: true, Observed: true,
		Begin: func(*explore.Server) *explore.Trial {
			run := &exploring{
				open: open, work: w, began: time.Now(), longest: lease,
				inside: map[string]*stay{}, taking: map[string]*explore.Session{},
			}
			alice, bob := Worker{Name: "Alice", TTL: lease}, Worker{Name: "Bob", Number: 1, TTL: lease}
			clients := []explore.Client{run.locks(alice, 2), run.locks(bob, 1)}
			if w.shared {
				run.longest = 2 * lease
				alice.Shared, bob.Shared, bob.TTL = true, true, run.longest
				writer := Worker{Name: "Writer", Number: 2, TTL: lease}
				clients = []explore.Client{run.locks(alice, 1), run.locks(bob, 1), run.locks(writer, 1)}
			}
			return &explore.Trial{Clients: clients, Judge: run.judge, Vacuous: run.plain}
		},
	}, b)
}

type exploring struct {
	open    Open
	work    work
	began   time.Time
	longest time.Duration // of the clients' leases

	mu     sync.Mutex
	inside map[string]*stay
	taking map[string]*explore.Session // those that call the lock
	free   time.Time                   // since when nobody is inside
	// The client that has released last since one entered; empty: none.
	released string
	entered  int
	found    []verify.Violation
	err      error             // why a client did not lock
	closers  redisconn.Closers // of the clients, for when all have ended
}

type stay struct {
	*explore.Session
	Worker
	asked   time.Time // when it began to take the lock, or later
	delayed time.Time // when it began to take the lock, if a fault has struck since; zero: none has
	entered time.Time
}

// late reports whether its own lease has run out while it took the lock,
// because a fault has delayed that.
func (s *stay) late() bool {
	until := s.until()
	return !s.delayed.IsZero() && s.delayed.Before(until) && !time.Now().Before(until)
}

// renews reports whether it has sent something since it entered, at least a
// tenth of a lease later: its lease should last. A lock that waits in a queue
// may have sent much before.
func (s *stay) renews() bool { return s.Seen().Sent.Sub(s.entered) > lease/10 }

// until is a millisecond before its lease runs out, as the servers say, or if they know
// of none, as it has asked for.
func (s *stay) until() time.Time {
	at := s.Seen().Expires
	if at.IsZero() {
		at = s.asked.Add(s.TTL)
	}
	return at.Add(-time.Millisecond)
}

func (e *exploring) locks(w Worker, times int) explore.Client {
	return explore.Client{Name: w.Name, Do: func(ctx context.Context, s *explore.Session) string {
		return e.client(ctx, s, w, times)
	}}
}

// client locks and unlocks a number of times. Inside it makes a request, so that
// another client may come before it.
func (e *exploring) client(ctx context.Context, s *explore.Session, w Worker, times int) string {
	toServer := func(ctx context.Context) (net.Conn, error) { return s.Connect(ctx, "", "") }
	work, err := redisconn.Over(toServer).Dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer work.Close()
	w.Timeout, w.dial = patient, s.Connect
	l, closer, err := e.open(ctx, w)
	if closer != nil {
		e.noted(func() { e.closers = append(e.closers, closer) })
	}
	if err != nil {
		e.noted(func() { e.err = err })
		return "could not open its lock: " + err.Error()
	}
	if e.work.meet && w.Number > 0 {
		_ = work.Incr(ctx, "work").Err() // so that it is the client that was chosen last
		e.works(ctx)
	}
	for n := range times {
		began, before := time.Now(), s.Seen()
		unlock, asked, err := e.lock(ctx, s, l, w.Name)
		if err != nil {
			e.noted(func() { e.err = err })
			return fmt.Sprintf("has locked %d times, then not: %v", n, err)
		}
		there := &stay{Session: s, Worker: w, asked: asked}
		if before.Calm.IsZero() || s.Seen().Faults > before.Faults {
			there.delayed = began
		}
		e.enter(w.Name, there)
		_ = work.Incr(ctx, "work").Err()
		e.works(ctx)
		if err := e.unlock(ctx, s, w.Name, unlock); err != nil {
			return fmt.Sprintf("has locked %d times, and could not unlock: %v", n+1, err)
		}
	}
	return fmt.Sprintf("has locked %d times", times)
}

// works lets the time of the work pass, or if clients meet, what is left of it.
func (e *exploring) works(ctx context.Context) {
	left := e.work.lasts
	if e.work.meet {
		left = time.Until(e.began.Add(e.work.lasts))
	}
	_ = backoff.Sleep(ctx, left, nil) // the next request says if ctx has ended
}

// noted writes what all clients share.
func (e *exploring) noted(write func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	write()
}

// lock calls a Lock until it takes the lock, and returns when it began to, or later.
func (e *exploring) lock(ctx context.Context, s *explore.Session, l Lock, name string) (
	unlock func(context.Context) error, asked time.Time, err error) {
	bounded, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	began, gap := time.Now(), lease/3
	for {
		asked, pauses := time.Now(), s.Pauses()
		s.Waits()
		e.noted(func() { e.taking[name] = s })
		unlock, err = l(bounded, "lock")
		gap = max(gap, s.Seen().Gap)
		e.waited(s, name, began, gap)
		if err == nil {
			if s.Pauses() == pauses { // else it may have been taken before the pause
				asked = time.Now()
			}
			return unlock, asked, nil
		}
		if backoff.Sleep(bounded, lease/3, nil) != nil {
			return nil, asked, err
		}
	}
}

// waited judges how long a client has waited while nobody was inside and nothing struck,
// given the time between two tries. One that is still taking the lock, and has changed
// something, may be inside already.
func (e *exploring) waited(s *explore.Session, name string, began time.Time, gap time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen, until := s.Seen(), time.Now()
	if !seen.Changed.IsZero() {
		until = seen.Changed
	}
	delete(e.taking, name)
	for _, other := range e.taking {
		if !other.Seen().Changed.IsZero() {
			return
		}
	}
	if len(e.inside) > 0 || seen.Calm.IsZero() || s.Died() {
		return
	}
	began = slices.MaxFunc([]time.Time{began, e.free, seen.Calm}, time.Time.Compare)
	limit := 2*e.longest + gap
	if seen.Faults == 0 && seen.Listened {
		limit = lease / 2
	}
	if long := until.Sub(began); long > limit {
		e.found = append(e.found, verify.Violation{Harm: verify.LockedOut, Text: fmt.Sprintf(
			"%s has waited for %s, while nobody was inside and nothing happened", name, long.Round(time.Millisecond))})
	}
}

// enter notes that a client is inside, and judges whether others that live are inside, too.
func (e *exploring) enter(name string, s *stay) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Died() {
		return
	}
	for other, there := range e.inside {
		harm, how := verify.TwoHolders, " and within its lease"
		switch over := !time.Now().Before(there.until()); {
		case there.Died() || there.Shared && s.Shared:
			continue
		case s.late():
			harm, how = verify.Outlived, ", because its own lease has run out while it took the lock"
		case over && there.renews() && there.Seen().Faults == 0:
			how = ", which has sent more since it took the lock, so that its lease should last"
		case over:
			harm, how = verify.Outlived, ", whose lease has run out"
		case e.released != "" && e.released != other:
			harm, how = verify.FreedAnothers, how+", after a release by "+e.released
		}
		e.found = append(e.found, verify.Violation{Harm: harm, Text: name + " enters while " + other + " is inside" + how})
	}
	s.entered = time.Now()
	e.inside[name], e.released = s, ""
	e.entered++
}

// unlock has a client leave, and then unlock. That has to change something if nothing
// has struck and its lease runs.
func (e *exploring) unlock(
	ctx context.Context, s *explore.Session, name string, unlock func(context.Context) error) error {
	var was *stay
	e.noted(func() {
		was = e.inside[name]
		delete(e.inside, name)
		if len(e.inside) == 0 {
			e.free = time.Now()
		}
	})
	before := s.Seen()
	err := unlock(ctx)
	e.noted(func() {
		e.released = name
		after := s.Seen()
		if was != nil && after.Faults == 0 && after.Changes == before.Changes && time.Now().Before(was.until()) {
			e.found = append(e.found, verify.Violation{Harm: verify.ReleasedNothing, Text: fmt.Sprintf(
				"the release of %s has changed nothing, and answers %v", name, err)})
		}
	})
	return err
}

// judge has a fresh client take the lock, and unlock it.
func (e *exploring) judge(s *explore.Server) []verify.Violation {
	defer e.closers.Close()
	life, end := context.WithCancel(context.Background())
	defer end()
	fresh := Worker{TTL: lease, Timeout: 2 * lease, Name: "a fresh client", Number: 3, dial: s.Connect}
	l, closer, err := e.open(life, fresh)
	if closer != nil {
		defer closer.Close()
	}
	if err == nil {
		var taken *lock.Lease
		taken, err = (&plain{lock: l, rest: lease / 10}).within(life, 2*e.longest, "lock", lock.ErrTimeout)
		if err == nil {
			_ = taken.Release(life) // this ends a renewal that it has started
			return e.found
		}
	}
	why := "a fresh client does not get in within two leases: " + err.Error()
	return append(e.found, verify.Violation{Harm: verify.LockedOut, Text: why})
}

func (e *exploring) plain() error {
	if e.entered == 0 {
		return fmt.Errorf("without faults nobody could lock: %w", e.err)
	}
	return nil
}

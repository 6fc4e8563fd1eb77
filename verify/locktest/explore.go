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
	report(t, searchAll(t, works, open, b))
}

// ExploreShared is Explore of a lock that readers share, as Worker.Shared says. One
// reader's leases last twice as long as those of the other and of the writer. For these
// three it has one preemption and one fault at most.
func ExploreShared(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	b.Preemptions, b.Faults = min(b.Preemptions, 1), min(b.Faults, 1)
	report(t, searchAll(t, sharedWorks, open, b))
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
			say("%s: %s, with %d preemptions and %d faults\n\n%s",
				r.Program.Name, f.Harm, f.Preemptions, f.Faults, f.Diagram)
		}
		t.Logf("%s: %s", r.Program.Name, r.Bound())
	}
}

// searchAll searches the programs of several works. What comes after the first one is
// searched with fewer preemptions and faults at a time.
func searchAll(t *testing.T, works []work, open Open, b explore.Bounds) (all []*explore.Report) {
	t.Helper()
	b.Exhaustive = true
	if b.Kinds == nil {
		b.Kinds = []explore.Fault{
			explore.Pause, explore.Die, explore.Lose, explore.Late, explore.Drop, explore.Split,
		}
	}

	for i, work := range works {
		if i > 0 && b.Total == 0 {
			b.Total = max(1, b.Preemptions, b.Faults)
		}
		r, err := search(t, open, b, work)
		if err != nil {
			t.Fatalf("%s: %v", work.program, err)
		}
		all = append(all, r)
	}
	return all
}

func search(t *testing.T, open Open, b explore.Bounds, w work) (*explore.Report, error) {
	return explore.Search(t.Context(), explore.Program{
		Name:     w.program,
		Subject:  t.Name(),
		Masters:  true,
		Observed: true,
		Begin:    func(*explore.Server) *explore.Trial { return newExploring(open, w).trial() },
	}, b)
}

func newExploring(open Open, w work) *exploring {
	e := &exploring{
		open:    open,
		work:    w,
		began:   time.Now(),
		longest: lease,
		inside:  map[string]*stay{},
		taking:  map[string]*explore.Session{},
	}
	if w.shared {
		e.longest = 2 * lease
	}
	return e
}

// trial is one schedule: of two clients, one of which locks twice, or of two readers with
// different leases and a writer.
func (e *exploring) trial() *explore.Trial {
	alice := Worker{Name: "Alice", TTL: lease}
	bob := Worker{Name: "Bob", TTL: e.longest, Number: 1}
	clients := []explore.Client{e.locks(alice, 2), e.locks(bob, 1)}
	if e.work.shared {
		alice.Shared, bob.Shared = true, true
		writer := Worker{Name: "Writer", TTL: lease, Number: 2}
		clients = []explore.Client{e.locks(alice, 1), e.locks(bob, 1), e.locks(writer, 1)}
	}
	return &explore.Trial{Clients: clients, Judge: e.judge, Vacuous: e.vacuous}
}

// An exploring is one schedule, and what its clients have done in it.
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
	work, err := redisconn.Over(toServer).WithReplyTimeout(s.ReplyTimeout()).Dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer work.Close()

	w.Timeout = patient
	w.dial = s.Connect
	l, closer, err := e.open(ctx, w)
	if closer != nil {
		e.update(func() { e.closers = append(e.closers, closer) })
	}
	if err != nil {
		e.update(func() { e.err = err })
		return "could not open its lock: " + err.Error()
	}

	// The client that is to meet the other one at its release is the one that was chosen last.
	if e.work.meet && w.Number > 0 {
		_ = work.Incr(ctx, "work").Err()
		e.works(ctx)
	}

	for n := range times {
		there, unlock, err := e.lock(ctx, s, l, w)
		if err != nil {
			e.update(func() { e.err = err })
			return fmt.Sprintf("has locked %d times, then not: %v", n, err)
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

// update has a client change what all clients share.
func (e *exploring) update(write func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	write()
}

// lock calls a Lock until it takes the lock, and returns how the client came in, and how it
// unlocks.
func (e *exploring) lock(ctx context.Context, s *explore.Session, l Lock, w Worker) (
	there *stay, unlock func(context.Context) error, err error) {
	bounded, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	began, before := time.Now(), s.Seen()
	gap := lease / 3
	for {
		asked, pauses := time.Now(), s.Pauses()
		s.Waits()
		e.update(func() { e.taking[w.Name] = s })
		unlock, err = l(bounded, "lock")
		gap = max(gap, s.Seen().Gap)
		e.waited(s, w.Name, began, gap)

		if err == nil {
			// If the client was paused, the lock may have been taken before that.
			if s.Pauses() == pauses {
				asked = time.Now()
			}
			there = &stay{Session: s, Worker: w, asked: asked}
			if before.Calm.IsZero() || s.Seen().Faults > before.Faults {
				there.delayed = began
			}
			return there, unlock, nil
		}
		if backoff.Sleep(bounded, lease/3, nil) != nil {
			return nil, nil, err
		}
	}
}

// waited judges how long a client has waited while nobody was inside and nothing struck,
// given the time between two tries. One that is still taking the lock, and has changed
// something, may be inside already.
func (e *exploring) waited(s *explore.Session, name string, began time.Time, gap time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.taking, name)
	for _, other := range e.taking {
		if !other.Seen().Changed.IsZero() {
			return
		}
	}
	seen := s.Seen()
	if len(e.inside) > 0 || seen.Calm.IsZero() || s.Died() {
		return
	}

	until := time.Now()
	if !seen.Changed.IsZero() {
		until = seen.Changed
	}
	since := slices.MaxFunc([]time.Time{began, e.free, seen.Calm}, time.Time.Compare)
	limit := 2*e.longest + gap
	if seen.Faults == 0 && seen.Listened {
		limit = lease / 2
	}
	if long := until.Sub(since); long > limit {
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
		if there.Died() || there.Shared && s.Shared {
			continue
		}
		harm, how := e.meets(s, other, there)
		text := name + " enters while " + other + " is inside" + how
		e.found = append(e.found, verify.Violation{Harm: harm, Text: text})
	}

	s.entered = time.Now()
	e.inside[name] = s
	e.released = ""
	e.entered++
}

// meets is the harm that a client enters while another one is inside, and how it came to
// that. It needs e.mu.
func (e *exploring) meets(s *stay, other string, there *stay) (harm verify.Harm, how string) {
	over := !time.Now().Before(there.until())
	switch {
	case s.late():
		return verify.Outlived, ", because its own lease has run out while it took the lock"
	case over && there.renews() && there.Seen().Faults == 0:
		return verify.TwoHolders, ", which has sent more since it took the lock, so that its lease should last"
	case over:
		return verify.Outlived, ", whose lease has run out"
	case e.released != "" && e.released != other:
		return verify.FreedAnothers, " and within its lease, after a release by " + e.released
	}
	return verify.TwoHolders, " and within its lease"
}

// unlock has a client leave, and then unlock. That has to change something if nothing
// has struck and its lease runs.
func (e *exploring) unlock(
	ctx context.Context, s *explore.Session, name string, unlock func(context.Context) error) error {
	var was *stay
	e.update(func() {
		was = e.inside[name]
		delete(e.inside, name)
		if len(e.inside) == 0 {
			e.free = time.Now()
		}
	})

	before := s.Seen()
	err := unlock(ctx)

	e.update(func() {
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
	if err := e.fresh(s); err != nil {
		why := "a fresh client does not get in within two leases: " + err.Error()
		return append(e.found, verify.Violation{Harm: verify.LockedOut, Text: why})
	}
	return e.found
}

func (e *exploring) fresh(s *explore.Server) error {
	life, end := context.WithCancel(context.Background())
	defer end()
	l, closer, err := e.open(life, Worker{
		Name:    "a fresh client",
		Number:  3,
		TTL:     lease,
		Timeout: 2 * lease,
		dial:    s.Connect,
	})
	if closer != nil {
		defer closer.Close()
	}
	if err != nil {
		return err
	}

	taken, err := (&adapter{lock: l, rest: lease / 10}).within(life, 2*e.longest, "lock", lock.ErrTimeout)
	if err != nil {
		return err
	}
	_ = taken.Release(life) // this ends a renewal that it has started
	return nil
}

// vacuous is an error if nobody could lock without a fault: the search would find nothing.
func (e *exploring) vacuous() error {
	if e.entered == 0 {
		return fmt.Errorf("without faults nobody could lock: %w", e.err)
	}
	return nil
}

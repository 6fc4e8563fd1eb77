package locktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// lease is how long the locks last that are explored, and patient how long a client waits for one.
const lease, patient = explore.Lease, 4 * time.Second

// Explore goes through every schedule of two clients of a lock of one's own within bounds, as package explore says:
// one locks twice, the other once, and who is inside makes a request. It needs no server, and its test must not be
// parallel. The test fails where two are inside, where a release frees another's lock, and where a fresh client is
// kept out ([verify.TwoHolders], [verify.FreedAnothers], [verify.LockedOut]), with the shortest schedule to it. That
// a client which pauses inside outlives its lease ([verify.Outlived]) is logged only: no lock that expires prevents
// it. A server that forgets its locks is explored where b.Of names that fault.
func Explore(t *testing.T, open Open, b explore.Bounds) {
	t.Helper()
	r := explored(t, open, b)
	for _, f := range r.Found {
		say := t.Errorf
		if f.Harm == verify.Outlived {
			say = t.Logf
		}
		say("%s, with %d preemptions and %d faults\n\n%s", f.Harm, f.Preemptions, f.Faults, f.Diagram)
	}
	t.Log(r.Bound())
}

func explored(t *testing.T, open Open, b explore.Bounds) *explore.Report {
	t.Helper()
	b.Goes = true
	if b.Of == nil {
		b.Of = []explore.Fault{explore.Pause, explore.Die, explore.Lose, explore.Late, explore.Drop, explore.Split}
	}
	r, err := explore.Search(t, explore.Program{
		Name: "lock", Subject: t.Name(), LockServers: 1,
		Begin: func(*explore.Server) *explore.Trial {
			run := &exploring{open: open, inside: map[string]stay{}}
			clients := []explore.Client{run.locks("Alice", 2), run.locks("Bob", 1)}
			return &explore.Trial{Clients: clients, Judge: run.judge, Plain: run.plain}
		},
	}, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exploring is one schedule.
type exploring struct {
	open Open

	mu       sync.Mutex
	inside   map[string]stay
	released string // who has released since somebody entered last; empty: nobody
	entered  int
	found    []verify.Violation
	err      error // why a client did not lock
}

// A stay is that of a client inside.
type stay struct {
	*explore.Session
	until time.Time // when its lease runs out
}

// locks is a client that locks and unlocks so many times.
func (e *exploring) locks(name string, times int) explore.Client {
	return explore.Client{Name: name, Do: func(ctx context.Context, s *explore.Session) string {
		return e.client(ctx, s, name, times)
	}}
}

// client is what it does. Inside it makes a request, so that another client may come before it.
func (e *exploring) client(ctx context.Context, s *explore.Session, name string, times int) string {
	work, err := s.Dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer work.Close()
	lock := e.open(s.T, Worker{TTL: lease, Timeout: patient, dial: s.ConnectLocks(0)})
	for n := range times {
		unlock, until, err := e.lock(ctx, s, lock)
		if err != nil {
			e.noted(func() { e.err = err })
			return fmt.Sprintf("has locked %d times, then not: %v", n, err)
		}
		e.enter(name, stay{s, until})
		_ = work.Incr(ctx, "work").Err()
		e.noted(func() { delete(e.inside, name) })
		err = unlock(ctx)
		e.noted(func() { e.released = name })
		if err != nil {
			return fmt.Sprintf("has locked %d times, and could not unlock: %v", n+1, err)
		}
	}
	return fmt.Sprintf("has locked %d times", times)
}

// noted writes what all clients share.
func (e *exploring) noted(write func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	write()
}

// lock calls a Lock until it takes the lock, and returns until when that lasts at least.
func (e *exploring) lock(ctx context.Context, s *explore.Session, lock Lock) (
	unlock func(context.Context) error, until time.Time, err error) {
	bounded, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	for {
		asked, pauses := time.Now(), s.Pauses()
		unlock, err = lock(bounded, "lock")
		if err == nil {
			if s.Pauses() == pauses { // else it may have been taken before the pause
				asked = time.Now()
			}
			return unlock, asked.Add(lease), nil
		}
		select {
		case <-time.After(lease / 3):
		case <-bounded.Done():
			return nil, until, err
		}
	}
}

// enter notes that a client is inside, and who alive is there, too.
func (e *exploring) enter(name string, s stay) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Died() {
		return
	}
	for other, there := range e.inside {
		harm, how := verify.TwoHolders, " and within its lease"
		switch {
		case there.Died():
			continue
		case !time.Now().Before(there.until):
			harm, how = verify.Outlived, ", whose lease has run out"
		case e.released != "" && e.released != other:
			harm, how = verify.FreedAnothers, how+", after a release by "+e.released
		}
		e.found = append(e.found, verify.Violation{Harm: harm, Text: name + " enters while " + other + " is inside" + how})
	}
	e.inside[name], e.released = s, ""
	e.entered++
}

// judge has a fresh client take the lock.
func (e *exploring) judge(s *explore.Server) []verify.Violation {
	ctx, cancel := context.WithTimeout(context.Background(), 2*lease)
	defer cancel()
	lock := e.open(s.T, Worker{TTL: lease, Timeout: 2 * lease, dial: s.Locks(0).Connect})
	_, err := lock(ctx, "lock")
	for ; err != nil && ctx.Err() == nil; _, err = lock(ctx, "lock") {
		time.Sleep(lease / 10)
	}
	if err != nil {
		why := "a fresh client does not get in within two leases: " + err.Error()
		e.found = append(e.found, verify.Violation{Harm: verify.LockedOut, Text: why})
	}
	return e.found
}

// plain says why nobody entered.
func (e *exploring) plain() error {
	if e.entered == 0 {
		return fmt.Errorf("without faults nobody could lock: %w", e.err)
	}
	return nil
}

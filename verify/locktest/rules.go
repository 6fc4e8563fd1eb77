package locktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// finds notes a harm. All that two goroutines do with one lock object is their user's doing if
// that is documented as confined to one. It needs e.mu.
func (e *exploring) finds(harm verify.Harm, text string) {
	if e.work.goroutines && e.confined && !harm.IsNote() {
		text = harm.String() + ": " + text
		harm = verify.HeldByTwoGoroutines
	}
	e.found = append(e.found, verify.Violation{Harm: harm, Text: text})
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
	if at.IsZero() || s.isOneOfTwo {
		at = s.asked.Add(s.TTL)
	}
	return at.Add(-time.Millisecond)
}

// lingers waits for a lease after the last release, and judges whether the client has changed
// anything about the lock in that time, but for what its release still had to do, and for
// what was late.
func (e *exploring) lingers(ctx context.Context, s *explore.Session, name string) {
	released := time.Now()
	_ = locking.Sleep(ctx, lease/10, nil)
	changes := s.Seen().Changes
	_ = locking.Sleep(ctx, lease, nil) // if ctx ends, the client is not judged

	seen := s.Seen()
	struck := seen.Calm.IsZero() || seen.Calm.After(released)
	if s.Died() || struck || seen.Changes == changes {
		return
	}
	text := fmt.Sprintf(
		"%s still changes something %s after it has released the lock, or was refused it",
		name, seen.Sent.Sub(released).Round(time.Millisecond))
	e.update(func() {
		e.finds(verify.StillRenews, text)
	})
}

// waited judges how long a client has waited while nobody was inside and nothing struck.
// One that is still taking the lock, and has changed something, may be inside already. That
// the client got in shows that what has kept it out has ended.
func (e *exploring) waited(a *attempt, name string, gotIn bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	// Each call of the lock begins with Waits, which resets what is seen: an attempt keeps it for
	// all its calls. calls is cleared before the loop below, which would find this attempt.
	seen := a.Seen()
	a.gap = max(a.gap, seen.Gap)
	a.listened = a.listened || seen.Listened
	a.calls = false

	// If two are taking it, and have changed something, that is another harm than a long wait.
	for _, other := range slices.Sorted(maps.Keys(e.taking)) {
		attempt := e.taking[other]
		if attempt.calls && !attempt.Seen().Changed.IsZero() {
			e.waitForEachOther(a, attempt, name+" and "+other)
			return
		}
	}
	if len(e.inside) > 0 || seen.Calm.IsZero() || a.Died() {
		return
	}

	// The wait counts from when nothing kept it out any more, to when it first changed something.
	until := time.Now()
	if !seen.Changed.IsZero() {
		until = seen.Changed
	}
	since := slices.MaxFunc([]time.Time{a.began, e.free, seen.Calm}, time.Time.Compare)

	// A lock that polls may find out a gap late. One that is sent a message, with no fault that
	// loses it, has no reason to wait for a lease.
	limit := 2*e.longest + a.gap
	if seen.Faults == 0 && seen.Listened {
		limit = lease / 2
	}

	long := until.Sub(since)
	switch {
	case long > limit:
		harm, why := e.keptOut()
		e.finds(harm, fmt.Sprintf("%s has waited for %s, while nobody was inside and nothing happened%s",
			name, long.Round(time.Millisecond), why))
	case gotIn && long > lease/2+a.gap && !a.listened && !e.someoneDied():
		e.finds(verify.Orphaned, fmt.Sprintf("%s has waited for %s for a lock that nobody had",
			name, long.Round(time.Millisecond)))
	}
}

// keptOut is the harm that a client is kept out, and what does that: one that lives and has
// never repeated its release may renew the lock. It needs e.mu.
func (e *exploring) keptOut() (harm verify.Harm, why string) {
	for _, name := range slices.Sorted(maps.Keys(e.failed)) {
		f := e.failed[name]
		if !f.Died() && f.Seen().Changes > f.changes {
			return verify.RenewsOn, ", but that " + name + " renews what its release has not freed"
		}
	}
	return verify.LockedOut, ""
}

// waitForEachOther judges whether an attempt that has just ended and another one that goes on
// have both taken something of the lock, and wait for the rest of it. It needs e.mu.
func (e *exploring) waitForEachOther(a, other *attempt, names string) {
	seen := a.Seen()
	if len(e.inside) > 0 || seen.Changed.IsZero() || seen.Faults > 0 {
		return
	}
	since := slices.MaxFunc([]time.Time{seen.Changed, other.Seen().Changed, e.free}, time.Time.Compare)
	if long := time.Since(since); long > 2*e.longest+max(a.gap, other.Seen().Gap) {
		e.finds(verify.WaitForEachOther, fmt.Sprintf(
			"%s have each taken something for the lock, and neither gets in for %s",
			names, long.Round(time.Millisecond)))
	}
}

// enter notes that a client is inside, and judges whether others that live are inside, too.
func (e *exploring) enter(name string, s *stay) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Died() {
		return
	}

	for _, other := range slices.Sorted(maps.Keys(e.inside)) {
		there := e.inside[other]
		if there.Died() || there.Shared && s.Shared {
			continue
		}
		harm, how := e.meets(s, other, there)
		e.finds(harm, name+" enters while "+other+" is inside"+how)
		if there.extends && there.atEntry < 0 {
			there.atEntry = there.Seen().Changes
		}
	}

	s.entered = time.Now()
	e.inside[name] = s
	e.released = ""
	e.entered++
	s.number = e.entered
}

// meets is the harm that a client enters while another one is inside, and how it came to
// that: the least that can be said against the lock comes first. If the other one's lease is
// over, it should have been prolonged only if it renews by itself: one that a fault has struck
// may have been kept from it, and one that is being extended has sent something for that. It
// needs e.mu. The referee of package judge decides the same by what passes its gate.
func (e *exploring) meets(s *stay, other string, there *stay) (harm verify.Harm, how string) {
	over := !time.Now().Before(there.until())
	switch {
	case s.late():
		return verify.Outlived, ", because its own lease has run out while it took the lock"
	case over && there.renews() && !there.extends && there.Seen().Faults == 0:
		return verify.TwoHolders,
			", which has sent more since it took the lock, so that its lease should last"
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

	// It leaves before it asks: whoever enters while the request is on its way meets nobody.
	var was *stay // nil: it has died, and enter has left it out
	e.update(func() {
		was = e.inside[name]
		delete(e.inside, name)
		if len(e.inside) == 0 {
			e.free = time.Now()
		}
	})

	if was != nil {
		e.update(func() {
			was.changes = s.Seen().Changes
			e.leaving[name] = was
		})
	}

	err := unlock(ctx)

	e.update(func() {
		e.released = name
		delete(e.leaving, name)
		after := s.Seen()
		if was == nil || after.Faults > 0 || after.Changes != was.changes {
			return
		}
		if time.Now().Before(was.until()) {
			e.finds(verify.ReleasedNothing,
				fmt.Sprintf("the release of %s has changed nothing, and answers %v", name, err))
		}
	})
	return err
}

// judge has a fresh client take the lock, and unlock it.
func (e *exploring) judge(s *explore.Server) []verify.Violation {
	if err := e.fresh(s); err != nil {
		harm, because := e.keptOut()
		e.update(func() {
			e.finds(harm, "a fresh client does not get in within two leases: "+err.Error()+because)
		})
	}
	return e.found
}

func (e *exploring) fresh(s *explore.Server) error {
	life, end := context.WithCancel(context.Background())
	l, closer, err := e.open(life, Worker{
		Name:    "a fresh client",
		Number:  3, // those of a trial have 0 to 2
		TTL:     lease,
		Timeout: 2 * lease,
		dial:    s.Connect,
	})
	if closer != nil {
		defer closer.Close()
	}
	defer end() // before that
	if err != nil {
		return err
	}

	patient := &adapter{lock: l, rest: lease / 10}
	taken, err := patient.within(life, 2*e.longest, "lock", lock.ErrTimeout)
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

// someoneDied reports whether a client has died. It needs e.mu.
func (e *exploring) someoneDied() bool {
	return slices.ContainsFunc(e.clients, (*explore.Session).Died)
}

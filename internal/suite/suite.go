// Package suite is what the conformance suites of purchasers (verify/markettest) and of
// locks (verify/locktest) share: it runs their checks, and holds the fixture that a check
// works with. It has the suite of purchasers, too, since marketsim's own strategies are
// tested with it: [TestPurchaser] runs it on any server, and the [Markets] are those whose
// schedules package explore goes through.
package suite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
)

// A Check is one behaviour of what is tested. F is the suite's own fixture.
type Check[F any] struct {
	Name    string
	Promise string // the promise that the check belongs to; empty: everybody has to behave so
	Alone   bool   // it disturbs other checks
	Run     func(F)
}

// A Suite is the checks of one thing that is tested.
type Suite[F any] struct {
	Checks   []Check[F]
	Patience time.Duration              // see Fixture
	Parallel bool                       // all checks but those that are Alone may run at the same time
	Promised func(promise string) bool  // whether a promise was made
	Open     func(*Fixture, Check[F]) F // makes the suite's fixture for one check
}

// A Result is what became of a check.
type Result struct {
	Failed  bool
	Missing string // what the check lacked
}

// Run runs each check as a subtest, and returns what became of those that were
// asked for, by their names.
func (s Suite[F]) Run(t *testing.T) map[string]Result {
	var mu sync.Mutex
	results := map[string]Result{}

	run := func(t *testing.T, parallel bool, c Check[F]) {
		if parallel {
			t.Parallel()
		}
		s.RunOne(t, c, func(r Result) {
			mu.Lock()
			defer mu.Unlock()
			results[c.Name] = r
		})
	}

	runAll := func(t *testing.T, parallel bool) {
		for _, c := range s.Checks {
			if parallel == (s.Parallel && !c.Alone) {
				t.Run(c.Name, func(t *testing.T) { run(t, parallel, c) })
			}
		}
	}

	// A group of parallel tests has ended when t.Run returns: those that are alone come after.
	if s.Parallel {
		t.Run("parallel", func(t *testing.T) {
			runAll(t, true)
		})
	}
	runAll(t, false)
	return results
}

// RunOne runs one check, unless it belongs to a promise that was not made, and calls
// done after the check's cleanups.
func (s Suite[F]) RunOne(t testing.TB, c Check[F], done func(Result)) {
	t.Helper()
	f := New(t, s.Patience)
	// Cleanups run last first: all that c registers have run when this one does.
	t.Cleanup(func() {
		if t.Skipped() && f.missing == "" && !f.needless {
			f.missing = "a hook skipped it"
		}
		done(Result{Failed: t.Failed(), Missing: f.missing})
	})

	if c.Promise != "" && !s.Promised(c.Promise) {
		f.NotApplicable("it does not promise this")
	}
	c.Run(s.Open(f, c))
}

// A Fixture is what one check works with.
type Fixture struct {
	testing.TB
	// Lives until the check's cleanups are done, or until long after the check
	// should have ended.
	Ctx      context.Context
	Patience time.Duration // for what should happen at once; it passes only if what is tested fails
	missing  string        // what the check lacks
	needless bool          // the check does not apply
}

// New returns a Fixture whose context has a deadline, so that what hangs fails
// in the call that hangs.
func New(t testing.TB, patience time.Duration) *Fixture {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*patience)
	t.Cleanup(cancel)
	return &Fixture{TB: t, Ctx: ctx, Patience: patience}
}

// Unchecked ends a check that lacks something.
func (f *Fixture) Unchecked(why string) {
	f.Helper()
	f.missing = why
	f.Skip("unchecked: " + why)
}

// NotApplicable ends a check that does not apply.
func (f *Fixture) NotApplicable(why string) {
	f.Helper()
	f.needless = true
	f.Skip(why)
}

// A Call is what a worker does in a goroutine of its own.
type Call struct {
	Cancel context.CancelFunc
	Done   chan struct{}
	Err    error // set before Done is closed
}

// Start starts a call. At the end of the check its context is cancelled, and
// the check waits for its end.
func (f *Fixture) Start(do func(context.Context) error) *Call {
	ctx, cancel := context.WithCancel(f.Ctx)
	c := &Call{Cancel: cancel, Done: make(chan struct{})}
	go func() {
		defer close(c.Done)
		c.Err = do(ctx)
	}()

	// Registered here and now, as cleanups run last first: what comes later has a held call go on
	// before it is waited for, and the call's worker, which was opened before, is closed after
	// this wait.
	f.Cleanup(func() {
		cancel()
		select {
		case <-c.Done:
		case <-time.After(f.Patience):
			f.Errorf("a worker whose context has ended continues for %s", f.Patience)
		}
	})
	return c
}

// EndsWithin waits for the end of the call, and reports whether it came in time.
func (c *Call) EndsWithin(limit time.Duration) bool {
	select {
	case <-c.Done:
	case <-time.After(limit):
	}

	// Both may have come at once.
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// AwaitEnd waits until the call has ended, or ends the check.
func (f *Fixture) AwaitEnd(c *Call, limit time.Duration, what string) {
	f.Helper()
	if !c.EndsWithin(limit) {
		f.Fatalf("%s did not end within %s", what, limit)
	}
}

// AwaitPoint waits until a worker comes to a point, which closes a channel. It reports
// false if the worker's call or the patience ends before that.
func (f *Fixture) AwaitPoint(c *Call, point <-chan struct{}) bool {
	select {
	case <-point:
		return true
	case <-c.Done:
	case <-time.After(f.Patience):
	}
	return false
}

// Server starts a server for the length of the test: a private redis-server if one
// is installed, else miniredis.
func Server(t testing.TB) *backend.Server {
	t.Helper()
	s, err := backend.Start(t.Context(), "", nil, backend.Local{}, backend.Embedded{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server of the test: %v", err)
		}
	})
	return s
}

// Repeat calls try until it returns true, and reports whether it did. The last call
// begins after limit, since the machine may have stopped before.
func Repeat(limit time.Duration, try func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		last := time.Now().After(deadline)
		if done := try(); done || last {
			return done
		}
	}
}

package locktest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestMain(m *testing.M) {
	parallel := 24 // they mostly wait
	if testkit.Raced {
		parallel = 12 // the detector makes each of them slow, and leases do not wait for that
	}
	testkit.MaxParallel(parallel)
	const here = "github.com/marketsim/marketsim/verify"
	testkit.VerifyNoLeaks(m, // of schedules that are held up by a mutex
		"testing/synctest.Test", "testing/synctest.Test.func1",
		here+"/explore.(*explorer).inBubble.func2",
		here+"/explore.(*world).start.func1", here+"/locktest.watched.renews",
		here+"/locktest.(*exploring).takesToo")
}

// A lock that keeps every promise passes every check; one in memory has no
// connection to be held at.
func TestGoodLockKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	factory := newMemory(t, "").factory()
	factory.Patience = 0 // the suite's own: a busy machine is slow
	for _, f := range Run(t, factory) {
		if f.State != Kept && !strings.Contains(f.Why, "cannot be held") {
			t.Errorf("%s: %s (%s), want kept", f.Promise, f.State, f.Why)
		}
	}
}

// Without hooks, what cannot be seen without them is unchecked, not kept.
func TestMissingHooksLeavePromisesUnchecked(t *testing.T) {
	t.Parallel()
	m := newMemory(t, "")
	m.promises.Fair = false
	missing := Run(t, Factory{Open: m.factory().Open}).Unchecked()
	if !slices.Equal(missing, []string{
		"exclusive", "owner-only release", "survives a crash", "clock-independent",
		"survives node loss", "notices loss",
	}) {
		t.Errorf("unchecked: %q", missing)
	}
}

// A flawed lock without steps and hooks, which cannot be held and cannot crash,
// does not keep the promise that it breaks.
func TestNoFlawIsKeptWithoutHooks(t *testing.T) {
	for fault, checks := range found {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, fault)
			open := func(_ testing.TB, w Worker) lock.Locker {
				w.Steps = nil
				return &memoryLocker{m: m, Worker: w}
			}

			report, _ := reported(t, m.promises, Factory{Open: open, Patience: m.factory().Patience})
			for _, begins := range checks.by {
				promise := named(t, begins).Promise
				if isKept(report, promise) {
					t.Errorf("a lock that %s: %s is kept", fault, promise)
				}
			}
		})
	}
}

func isKept(report Report, promise string) bool {
	for _, p := range report {
		if p.Promise == promise && p.State == Kept {
			return true
		}
	}
	return false
}

// reported runs all checks on a lock that may fail them, and returns what they said too.
// They mostly wait: a few run at a time, where the hooks allow it.
func reported(t *testing.T, promises lock.Promises, factory Factory) (Report, string) {
	results := make([]suite.Result, len(checks))
	messages := make([]string, len(checks))
	var running errgroup.Group
	running.SetLimit(1)
	if factory.Parallel {
		running.SetLimit(3)
	}

	for i, c := range checks {
		running.Go(func() error {
			messages[i] = testkit.Try(t, func(t testing.TB) {
				newSuite(factory, promises).RunOne(t, c, func(r suite.Result) {
					results[i] = r
				})
			})
			return nil
		})
	}
	_ = running.Wait() // what went wrong is in messages

	named := map[string]suite.Result{}
	for i, c := range checks {
		named[c.Name] = results[i]
	}
	return judge(promises, named), strings.Join(messages, "")
}

// A check that a hook skipped is not passed.
func TestSkippedChecksAreUnchecked(t *testing.T) {
	factory := Factory{Open: func(t testing.TB, _ Worker) lock.Locker {
		t.Skip("no server")
		return nil
	}}

	var got suite.Result
	testkit.Try(t, func(t testing.TB) {
		newSuite(factory, everything).RunOne(t, named(t, "workers exclude"), func(r suite.Result) {
			got = r
		})
	})

	if got.Missing == "" {
		t.Errorf("the outcome is %+v, want what was missing", got)
	}
}

// Without a hook, a lock that never expires is found all the same.
func TestNeverExpiringIsFoundWithoutHooks(t *testing.T) {
	t.Parallel()
	m := newMemory(t, neverExpires)
	bare := Factory{Open: m.factory().Open, TTL: m.factory().TTL, Patience: m.factory().Patience}
	messages := testkit.Try(t, func(t testing.TB) {
		newSuite(bare, everything).RunOne(t, named(t, "lease that nobody"), func(suite.Result) {})
	})
	if !strings.Contains(messages, "is not free") {
		t.Errorf("the check said %q, want that the lock is not free", messages)
	}
}

// leavable is a lock whose leases can be left, which ends nothing.
type leavable struct{ lock.Locker }

func (l leavable) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, name)
	if err == nil {
		lease.Abandon = func() {}
	}
	return lease, err
}

// A lease that outlasts its being left is found; one that expires is not.
func TestLeftLeases(t *testing.T) {
	for fault, says := range map[fault]string{
		neverExpires: "a lease that its holder left: the lock is not free",
		"":           "",
	} {
		m := newMemory(t, fault)
		factory := Factory{
			TTL: m.factory().TTL, Patience: m.factory().Patience,
			Open: func(t testing.TB, w Worker) lock.Locker {
				return leavable{m.factory().Open(t, w)}
			},
		}

		messages := testkit.Try(t, func(t testing.TB) {
			newSuite(factory, everything).RunOne(t, named(t, "left lease"), func(suite.Result) {})
		})
		if !strings.Contains(messages, says) || says == "" && messages != "" {
			t.Errorf("%q: the check said %q, want %q", fault, messages, says)
		}
	}
}

// A lock whose Try fails for everybody is not said to depend on clocks.
func TestABrokenTryIsNoWrongClock(t *testing.T) {
	t.Parallel()
	var got suite.Result
	messages := testkit.Try(t, func(t testing.TB) {
		broken := newSuite(newMemory(t, tryFails).factory(), everything)
		broken.RunOne(t, named(t, "wrong clocks"), func(r suite.Result) {
			got = r
		})
	})
	if got.Failed || !strings.Contains(got.Missing, "with a right clock") {
		t.Errorf("%q, %+v; want it unchecked: Try does not work with a right clock", messages, got)
	}
}

// A lease that renews itself does not expire when its holder is left alone: the
// check needs a crash.
func TestSelfRenewingLeaseNeedsACrash(t *testing.T) {
	var got suite.Result
	testkit.Try(t, func(t testing.TB) {
		bare := Factory{Open: newMemory(t, "").factory().Open, Renewing: true}
		newSuite(bare, everything).RunOne(t, named(t, "lease that nobody"), func(r suite.Result) {
			got = r
		})
	})
	if got.Missing == "" {
		t.Errorf("the outcome is %+v, want that the hook is missing", got)
	}
}

func TestEveryPromiseHasACheck(t *testing.T) {
	named := map[string]bool{"": true}
	for _, p := range (lock.Promises{}).List() {
		named[p.Name] = true
		if !slices.ContainsFunc(checks, func(c check) bool {
			return c.Promise == p.Name
		}) {
			t.Errorf("promise %q has no check", p.Name)
		}
	}

	for _, c := range checks {
		if !named[c.Promise] {
			t.Errorf("check %q belongs to %q, which is no promise", c.Name, c.Promise)
		}
	}
}

// What a lock can do wrong.
const (
	letsAllIn          fault = "lets everybody in"
	oneForAllNames     fault = "has one lock for all names"
	tryIsSlow          fault = "takes long to try"
	tryFails           fault = "cannot try"
	sleepsOn           fault = "sleeps on when the lock is free"
	deafToContext      fault = "does not hear that the context ended"
	flattensErrors     fault = "hides why an acquisition ended"
	keepsItsPlace      fault = "keeps a place in line for one that gave up"
	freesWhenCancelled fault = "frees the lock when a waiter gives up"
	freesAnyones       fault = "frees anyone's lock"
	freesAReader       fault = "frees any reader"
	ignoresReleases    fault = "does not release under a context that has ended, and says yes"
	neverExpires       fault = "never expires"
	deadStayInLine     fault = "leaves the dead in line"
	trustsClocks       fault = "trusts clients' clocks"
	needsAllNodes      fault = "needs all nodes"
	noticesNothing     fault = "notices no loss"
	givesNoCause       fault = "cancels a lost lease without a cause"
	shutsHolderOut     fault = "does not let its holder in again"
	forgetsEntries     fault = "forgets how often it was entered"
	lastFirst          fault = "serves the last first"
	repeatsFences      fault = "repeats a fence"
	renewsNothing      fault = "renews nothing"
	renewsAnyones      fault = "renews anyone's lock"
	renewsTheEnded     fault = "renews a lease that has ended"
	readersShareLease  fault = "has the last reader say when all leases end"
	readersExclude     fault = "lets one reader in"
	writesAmongReaders fault = "lets a writer in among readers"
	starvesWriters     fault = "lets readers pass a waiting writer"
)

// found says how each fault is found: by the checks that are about it, and by those that
// it spoils as well. A check is called by the beginning of its name.
var found = map[fault]struct{ by, too []string }{
	letsAllIn: {
		by: []string{"try takes", "workers exclude", "renewal keeps", "waiter gets", "names"},
		too: []string{
			"acquisition ends", "cancellation", "deadline", "holder enters",
			"lease of a reader", "reader frees", "readers share", "release of a lost",
			"second release", "waiting writer", "works while",
		},
	},
	oneForAllNames: {
		by: []string{"names"},
		too: []string{
			"release that is given", "release that says yes", "release that was overtaken",
			"wait that is given",
		},
	},
	sleepsOn: {
		by: []string{"waiter gets"},
		too: []string{
			"crashed holder", "crashed waiter", "readers share", "waiters get",
			"waiting writer", "workers exclude",
		},
	},
	deafToContext: {
		by:  []string{"cancellation", "deadline", "context that has"},
		too: []string{"waiting writer"},
	},
	flattensErrors: {
		by:  []string{"acquisition ends", "cancellation", "deadline", "context that"},
		too: []string{"readers share"},
	},
	keepsItsPlace: {
		by:  []string{"acquisition ends", "cancellation", "deadline"},
		too: []string{"readers share"},
	},
	freesWhenCancelled: {
		by:  []string{"acquisition ends", "cancellation", "deadline"},
		too: []string{"readers share", "waiting writer"},
	},
	freesAnyones: {
		by:  []string{"second release", "release of a lost", "reader frees"},
		too: []string{"holder enters", "lost lease", "readers share"},
	},
	freesAReader:    {by: []string{"reader frees"}},
	ignoresReleases: {by: []string{"release that says yes"}},
	neverExpires: {
		by:  []string{"crashed holder", "lease that nobody"},
		too: []string{"fences", "lease of a reader", "wrong clocks"},
	},
	deadStayInLine:    {by: []string{"crashed waiter"}},
	trustsClocks:      {by: []string{"wrong clocks"}},
	needsAllNodes:     {by: []string{"works while"}},
	noticesNothing:    {by: []string{"lost lease"}},
	givesNoCause:      {by: []string{"lost lease"}},
	shutsHolderOut:    {by: []string{"holder enters"}},
	forgetsEntries:    {by: []string{"holder enters"}, too: []string{"reader frees", "readers share"}},
	lastFirst:         {by: []string{"waiters get"}, too: []string{"waiting writer"}},
	repeatsFences:     {by: []string{"fences"}},
	renewsNothing:     {by: []string{"renewal keeps"}},
	renewsAnyones:     {by: []string{"renewal of a lost", "renewal of a lease"}},
	renewsTheEnded:    {by: []string{"renewal of a lease"}},
	readersShareLease: {by: []string{"lease of a reader"}},
	readersExclude: {
		by:  []string{"readers share"},
		too: []string{"lease of a reader", "reader frees"},
	},
	writesAmongReaders: {
		by:  []string{"readers share"},
		too: []string{"lease of a reader", "reader frees", "waiting writer"},
	},
	starvesWriters: {by: []string{"waiting writer"}},
}

func TestFaultsAreFound(t *testing.T) {
	for fault, checks := range found {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			failed := failures(t, fault)
			for _, begins := range checks.by {
				if name := named(t, begins).Name; failed[name] == "" {
					t.Errorf("%q did not fail", name)
				}
			}

			for _, begins := range slices.Concat(checks.by, checks.too) {
				delete(failed, named(t, begins).Name)
			}
			for name, why := range failed {
				t.Errorf("%q failed too: %s", name, why)
			}
		})
	}
}

// failures runs all checks and returns what those that failed said.
func failures(t *testing.T, f fault) map[string]string {
	failed := map[string]string{}
	for _, c := range checks {
		if messages := failureOf(t, c, f); messages != "" {
			failed[c.Name] = messages
		}
	}
	return failed
}

// failureOf runs the check on a lock with a fault and returns what it failed with. It runs on
// synctest's clock: a lock in memory takes no time there, however busy the machine is.
func failureOf(t *testing.T, c check, f fault) (messages string) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, f)
		messages = testkit.Try(t, func(t testing.TB) {
			newSuite(m.factory(), m.promises).RunOne(t, c, func(suite.Result) {})
		})
	})
	return messages
}

func named(t testing.TB, begins string) check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c check) bool {
		return strings.HasPrefix(c.Name, begins)
	})
	if i < 0 {
		t.Fatalf("no check begins with %q", begins)
	}
	return checks[i]
}

func TestSlowTryIsFound(t *testing.T) {
	t.Parallel()
	messages := failureOf(t, named(t, "try takes"), tryIsSlow)
	if !strings.Contains(messages, "took") {
		t.Errorf("the check said %q, want how long it took", messages)
	}
}

// A promise that is broken is reported with the check that found it.
func TestReportNamesTheBrokenPromise(t *testing.T) {
	r := judge(everything, map[string]suite.Result{named(t, "waiters get").Name: {Failed: true}})
	for _, f := range r {
		if f.Promise == "fair" && (f.State != Broken || f.Why != "waiters get it in order") {
			t.Errorf("fair: %+v, want it broken by its check", f)
		}
		if f.Promise == "fenced" && f.State != NotRun {
			t.Errorf("fenced: %+v, want it not run", f)
		}
	}
}

package locktest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/strategies/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lock that keeps every promise passes every check.
func TestGoodLockKeepsEveryPromise(t *testing.T) {
	for _, f := range Run(t, newMemory(t, "").subject()) {
		if f.Verdict != Kept {
			t.Errorf("%s: %s (%s), want kept", f.Promise, f.Verdict, f.Why)
		}
	}
}

// Without hooks, what cannot be seen without them is unchecked, not kept.
func TestMissingHooksLeavePromisesUnchecked(t *testing.T) {
	m := newMemory(t, "")
	m.promises.Fair = false
	got, report := map[string]Verdict{}, Run(t, Subject{Open: m.subject().Open})
	for _, f := range report {
		got[f.Promise] = f.Verdict
	}
	want := map[string]Verdict{
		"exclusive": Kept, "owner-only release": Kept, "survives a crash": Unchecked, "clock-independent": Unchecked,
		"reentrant": Kept, "fair": NotMade, "fenced": Kept, "survives node loss": Unchecked, "notices loss": Unchecked,
		"shared": Kept, "serves writers": Kept,
	}
	if missing := report.Unchecked(); !slices.Equal(missing, []string{
		"survives a crash", "clock-independent", "survives node loss", "notices loss",
	}) {
		t.Errorf("unchecked: %q", missing)
	}
	for promise, verdict := range want {
		if got[promise] != verdict {
			t.Errorf("%s: %s, want %s", promise, got[promise], verdict)
		}
	}
}

// A check that a hook skipped is not passed.
func TestSkippedChecksAreUnchecked(t *testing.T) {
	subject := Subject{Open: func(t testing.TB, _ Worker) lock.Locker { t.Skip("no server"); return nil }}
	var got outcome
	try(t, func(t testing.TB) {
		named(t, "workers exclude").on(t, subject, everything, func(o outcome) { got = o })
	})
	if got.missing == "" {
		t.Errorf("the outcome is %+v, want what was missing", got)
	}
}

// Without a hook, a lock that never expires is found all the same.
func TestNeverExpiringIsFoundWithoutHooks(t *testing.T) {
	m := newMemory(t, neverExpires)
	bare := Subject{Open: m.subject().Open, TTL: m.subject().TTL, Patience: m.subject().Patience}
	said := try(t, func(t testing.TB) { named(t, "lease that nobody").on(t, bare, everything, func(outcome) {}) })
	if !strings.Contains(said, "is not free") {
		t.Errorf("the check said %q, want that the lock is not free", said)
	}
}

// The lock in memory keeps time by the clocks of its workers, whom nobody gave a wrong one.
func TestClockThatIsReadUnaskedIsFound(t *testing.T) {
	subject := newMemory(t, "").subject()
	subject.Bubble = true
	said := try(t, func(t testing.TB) { named(t, "wrong clocks").on(t, subject, everything, func(outcome) {}) })
	if !strings.Contains(said, "held by a client whose clock is wrong") {
		t.Errorf("the check said %q, want that others get what is held by the client whose clock is wrong", said)
	}
}

// What renews itself is not abandoned by leaving it alone.
func TestSelfRenewingLeaseNeedsACrash(t *testing.T) {
	var got outcome
	try(t, func(t testing.TB) {
		bare := Subject{Open: newMemory(t, "").subject().Open, Renewing: true}
		named(t, "lease that nobody").on(t, bare, everything, func(o outcome) { got = o })
	})
	if got.missing == "" {
		t.Errorf("the outcome is %+v, want that the hook is missing", got)
	}
}

func TestEveryPromiseHasACheck(t *testing.T) {
	named := map[string]bool{"": true}
	for _, p := range (lock.Promises{}).List() {
		named[p.Name] = true
		if !slices.ContainsFunc(checks, func(c check) bool { return c.promise == p.Name }) {
			t.Errorf("promise %q has no check", p.Name)
		}
	}
	for _, c := range checks {
		if !named[c.promise] {
			t.Errorf("check %q belongs to %q, which is no promise", c.name, c.promise)
		}
	}
}

// What a lock can do wrong.
const (
	letsAllIn          fault = "lets everybody in"
	looksThenTakes     fault = "looks, then takes"
	oneForAllNames     fault = "has one lock for all names"
	tryIsSlow          fault = "takes long to try"
	sleepsOn           fault = "sleeps on when the lock is free"
	deafToContext      fault = "does not hear that the context ended"
	flattensErrors     fault = "hides why an acquisition ended"
	keepsItsPlace      fault = "keeps a place in line for one that gave up"
	freesWhenCancelled fault = "frees the lock when a waiter gives up"
	leaksGoroutine     fault = "leaves a goroutine behind"
	freesAnyones       fault = "frees anyone's lock"
	comparesThenFrees  fault = "compares, then frees"
	freesAReader       fault = "frees any reader"
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
	readersExclude     fault = "lets one reader in"
	writesAmongReaders fault = "lets a writer in among readers"
	starvesWriters     fault = "lets readers pass a waiting writer"
)

// found says how each fault is found: by the checks that are about it, and by those that it spoils as well. A check is
// called by the beginning of its name.
var found = map[fault]struct{ by, too []string }{
	letsAllIn: {
		by: []string{"try of a held", "try takes", "workers exclude", "renewal keeps", "waiter gets", "names"},
		too: []string{
			"acquisition ends", "cancellation", "deadline", "holder enters", "reader frees", "readers share", "release of a lost",
			"second release", "waiting writer", "works while", "wrong clocks",
		},
	},
	looksThenTakes: {
		by: []string{"two who look"}, too: []string{"workers exclude", "holder enters", "reader frees", "readers share", "waiting writer"},
	},
	oneForAllNames: {by: []string{"names"}},
	sleepsOn: {
		by: []string{"waiter gets"},
		too: []string{
			"crashed holder", "crashed waiter", "readers share", "waiters get", "waiting writer", "workers exclude",
		},
	},
	deafToContext:      {by: []string{"cancellation", "deadline", "context that has"}, too: []string{"waiting writer"}},
	flattensErrors:     {by: []string{"acquisition ends", "cancellation", "deadline", "context that"}, too: []string{"readers share"}},
	keepsItsPlace:      {by: []string{"acquisition ends", "cancellation", "deadline"}, too: []string{"readers share"}},
	freesWhenCancelled: {by: []string{"acquisition ends", "cancellation", "deadline"}, too: []string{"readers share", "waiting writer"}},
	freesAnyones: {
		by:  []string{"second release", "release of a lost", "reader frees"},
		too: []string{"holder enters", "lost lease", "readers share"},
	},
	comparesThenFrees:  {by: []string{"release that was overtaken"}, too: []string{"holder enters", "reader frees", "readers share"}},
	freesAReader:       {by: []string{"reader frees"}},
	neverExpires:       {by: []string{"crashed holder", "lease that nobody"}, too: []string{"fences", "wrong clocks"}},
	deadStayInLine:     {by: []string{"crashed waiter"}},
	trustsClocks:       {by: []string{"wrong clocks"}},
	needsAllNodes:      {by: []string{"works while"}},
	noticesNothing:     {by: []string{"lost lease"}},
	givesNoCause:       {by: []string{"lost lease"}},
	shutsHolderOut:     {by: []string{"holder enters"}},
	forgetsEntries:     {by: []string{"holder enters"}, too: []string{"reader frees", "readers share"}},
	lastFirst:          {by: []string{"waiters get"}, too: []string{"waiting writer"}},
	repeatsFences:      {by: []string{"fences"}},
	renewsNothing:      {by: []string{"renewal keeps"}},
	renewsAnyones:      {by: []string{"renewal of a lost"}},
	readersExclude:     {by: []string{"readers share"}, too: []string{"reader frees"}},
	writesAmongReaders: {by: []string{"readers share"}, too: []string{"reader frees", "waiting writer"}},
	starvesWriters:     {by: []string{"waiting writer"}},
}

func TestFaultsAreFound(t *testing.T) {
	for fault, checks := range found {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			failed := failures(t, fault)
			for _, begins := range checks.by {
				if name := named(t, begins).name; failed[name] == "" {
					t.Errorf("%q did not fail", name)
				}
			}
			for _, begins := range slices.Concat(checks.by, checks.too) {
				delete(failed, named(t, begins).name)
			}
			for name, why := range failed {
				t.Errorf("%q failed too: %s", name, why)
			}
		})
	}
}

// leaks cannot be run beside other checks.
const leaks = "no goroutine is left behind"

// failures runs all checks but one and returns what those that failed said.
func failures(t *testing.T, f fault) map[string]string {
	var mu sync.Mutex
	var crew sync.WaitGroup
	failed := map[string]string{}
	for _, c := range checks {
		if c.name == leaks {
			continue
		}
		crew.Go(func() {
			said := c.said(t, f)
			mu.Lock()
			defer mu.Unlock()
			if said != "" {
				failed[c.name] = said
			}
		})
	}
	crew.Wait()
	return failed
}

// said runs the check on a lock with a fault and returns what it failed with.
func (c check) said(t *testing.T, f fault) string {
	m := newMemory(t, f)
	return try(t, func(t testing.TB) { c.on(t, m.subject(), m.promises, func(outcome) {}) })
}

func named(t testing.TB, begins string) check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c check) bool { return strings.HasPrefix(c.name, begins) })
	if i < 0 {
		t.Fatalf("no check begins with %q", begins)
	}
	return checks[i]
}

func TestGoroutineLeftBehindIsFound(t *testing.T) {
	if said := named(t, leaks).said(t, leaksGoroutine); !strings.Contains(said, "giveUp") {
		t.Errorf("the check said %q, want where the goroutine began", said)
	}
}

func TestSlowTryIsFound(t *testing.T) {
	if said := named(t, "try of a held").said(t, tryIsSlow); !strings.Contains(said, "took") {
		t.Errorf("the check said %q, want how long it took", said)
	}
}

// A promise that is broken is reported with the check that found it.
func TestReportNamesTheBrokenPromise(t *testing.T) {
	r := judge(everything, map[string]outcome{named(t, "waiters get").name: {ran: true, failed: true}})
	for _, f := range r {
		if f.Promise == "fair" && (f.Verdict != Broken || f.Why != "waiters get it in order") {
			t.Errorf("fair: %+v, want it broken by its check", f)
		}
		if f.Promise == "fenced" && f.Verdict != NotRun {
			t.Errorf("fenced: %+v, want it not run", f)
		}
	}
}

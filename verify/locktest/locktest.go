// Package locktest is the conformance suite for a lock. [Check] gives a first answer
// about any lock in Redis, in about 15 lines (see the example), with which package
// bench/compare says how fast it is. [Run] checks all that a lock.Locker promises:
//
//	locktest.Run(t, locktest.Factory{Open: func(t testing.TB, w locktest.Worker) lock.Locker {
//		return mine.New(w.Through(t, "localhost:6379"), w.TTL, w.Timeout)
//	}})
//
// Some checks hold for every lock; the others belong to what the Locker's Promises
// claim. A lock that breaks a promise that it made fails the test. A promise is
// unchecked, and not kept, if a check needs a hook that the Factory lacks, or if it cannot hold
// a worker before each request of an acquisition or a release while another takes the lock. The
// suite takes a few seconds, most of it waiting, so tests of
// several locks may run in parallel.
//
// The hooks of a Factory are what only its author can do: Lose, say, deletes the keys or
// nodes of a lock.
package locktest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// A Factory makes the lock that is tested. Only Open is required; each other
// field makes more checks possible.
type Factory struct {
	// Open makes the Locker of one more worker, with connections of its own. The suite
	// closes a Locker that is an io.Closer. Whatever else must be closed, Open closes
	// with t.Cleanup, which runs after that.
	Open func(t testing.TB, w Worker) lock.Locker

	// Lose takes the lock called name away from its holder, for example by
	// deleting its key.
	Lose func(t testing.TB, name string)

	// Crash ends a worker as kill -9 does, also in the middle of an acquisition: it
	// closes its connections and releases nothing. By default the connections through
	// Worker.Through and Worker.Dial are cut.
	Crash func(t testing.TB, l lock.Locker)

	// StopNode stops a minority of the lock's servers, waits until the others serve, so
	// that the lock is not accused of what they do, and returns a function that starts
	// the stopped ones again.
	StopNode func(t testing.TB) (start func())

	// Queued returns how many workers wait for the lock called name. By default the suite
	// learns it from step.Waiting.
	Queued func(t testing.TB, name string) int

	// TTL is one that the lock supports, and short: checks wait until it has
	// passed. The default is 200 ms.
	TTL time.Duration

	// Patience is the longest time that may pass until the lock is free after a crash, or
	// until a waiter gets it after a release. The default is 30 s. It passes only if the
	// lock fails, or does not report step.Waiting.
	Patience time.Duration

	Clock    bool // Open honours Worker.Now
	Renewing bool // leases renew themselves until they are released

	// Parallel says that several tests may call the hooks at a time: then all checks that
	// stop no server are parallel.
	Parallel bool

	// Open makes a Lock an adapter: it reports no steps, and not what it has lost.
	adapted bool
}

// A Worker is what one Locker is made with.
type Worker struct {
	TTL     time.Duration    // how long the lock is held without renewal
	Timeout time.Duration    // how long an acquisition may take
	Steps   step.Observer    // is told what the worker does; may be nil
	Now     func() time.Time // the worker's wall clock; nil means the true one
	Name    string           // of the client: under Explore
	Number  int              // of the client, from 0, among those of a test
	Shared  bool             // it is to take the lock as a reader: under ExploreShared

	proxies *suite.Proxies
	dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil: by the proxies
}

// Through returns the address, host:port, at which the worker reaches the server at addr.
// Only a worker that connects there can be held before each of its requests, and can
// crash without a hook. Bytes of any protocol pass.
func (w Worker) Through(t testing.TB, addr string) string {
	t.Helper()
	through, err := w.proxies.Through(addr)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// Dial connects the worker to the server at addr as Through says. Client libraries take
// it as a dialer. Under [Check] and [Explore] each address is a server of the package's,
// with no need to log in: a lock may have several masters.
func (w Worker) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.dial != nil {
		return w.dial(ctx, network, addr)
	}
	through, err := w.proxies.Through(addr)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, through)
}

type check = suite.Check[*fixture]

// Run tests the lock, each behaviour as a subtest. It logs what became of each
// promise, and returns it.
func Run(t *testing.T, factory Factory) Report {
	// Only a Locker says what it promises: one is opened to ask it.
	s := newSuite(factory, lock.Promises{})
	promises := s.Open(suite.New(t, s.Patience), check{}).worker().Promises()
	report := judge(promises, newSuite(factory, promises).Run(t))
	t.Logf("promises of this lock:\n%s", report)
	return report
}

func newSuite(factory Factory, promises lock.Promises) suite.Suite[*fixture] {
	factory.TTL = cmp.Or(factory.TTL, 200*time.Millisecond)
	factory.Patience = cmp.Or(factory.Patience, 30*time.Second)

	return suite.Suite[*fixture]{
		Checks:   checks,
		Patience: factory.Patience,
		Parallel: factory.Parallel,
		Promised: func(promise string) bool {
			return slices.Contains(promises.List(), lock.Promise{Name: promise, Made: true})
		},
		Open: func(f *suite.Fixture, c check) *fixture {
			return &fixture{
				Fixture:   f,
				factory:   factory,
				promises:  promises,
				name:      newName(),
				ofPromise: c.Promise != "",
			}
		},
	}
}

var checks = []check{
	{Name: "try takes a free lock, and answers at once that it is held", Run: tryTakesAFreeLock},
	{Name: "waiter gets the lock when it is released", Run: waiterGetsIt},
	{Name: "names do not exclude each other", Run: namesDoNotExcludeEachOther},
	{Name: "acquisition ends at its time-out", Run: acquisitionEndsAtItsTimeout},
	{Name: "context that has ended takes nothing", Run: endedContextTakesNothing},
	{Name: "cancellation ends a wait and leaves nothing behind", Run: cancellationEndsAWait},
	{Name: "deadline ends a wait and leaves nothing behind", Run: deadlineEndsAWait},
	{Name: "acquisition that is given up keeps nobody out", Run: givenUpAcquisitionKeepsNobodyOut},
	{Name: "wait that is given up at a request leaves nothing behind", Run: givenUpWaitLeavesNothing},
	{Name: "release that is given up is repeated", Run: givenUpReleaseIsRepeated},
	{Name: "release that says yes has freed the lock, though it was given up", Run: givenUpReleaseSaysYes},
	{Name: "release ends renewal", Run: releaseEndsRenewal},
	{Name: "renewal keeps the lock", Run: renewalKeepsTheLock},
	{Name: "renewal of a lost lock fails", Run: renewalOfALostLockFails},
	{Name: "renewal of a lease that has ended fails", Run: renewalOfAnEndedLeaseFails},
	{Name: "lease that renews itself outlives its TTL", Run: leaseRenewsItself},
	{Name: "workers exclude each other", Promise: "exclusive", Run: workersExcludeEachOther},
	{Name: "two who look at the same time exclude each other", Promise: "exclusive", Run: lookersExcludeEachOther},
	{Name: "second release frees nothing", Promise: "owner-only release", Run: secondReleaseFreesNothing},
	{Name: "release of a lost lock frees nothing", Promise: "owner-only release", Run: lostReleaseFreesNothing},
	{Name: "release that was overtaken frees nothing", Promise: "owner-only release", Run: overtakenReleaseFreesNothing},
	{Name: "reader frees only itself", Promise: "owner-only release", Run: readerFreesOnlyItself},
	{Name: "lease that nobody releases expires", Promise: "survives a crash", Run: abandonedLeaseExpires},
	{Name: "left lease expires", Promise: "survives a crash", Run: leftLeaseExpires},
	{Name: "crashed holder is succeeded", Promise: "survives a crash", Run: crashedHolderIsSucceeded},
	{Name: "crashed waiter is passed over", Promise: "survives a crash", Run: crashedWaiterIsPassedOver},
	{Name: "lease of a reader is its own", Promise: "survives a crash", Run: leaseOfAReaderIsItsOwn},
	{Name: "wrong clocks neither steal nor are locked out", Promise: "clock-independent", Run: wrongClocksDoNoHarm},
	{Name: "holder enters again", Promise: "reentrant", Run: holderEntersAgain},
	{Name: "waiters get it in order", Promise: "fair", Run: waitersGetItInOrder},
	{Name: "fences grow", Promise: "fenced", Run: fencesGrow},
	{Name: "works while a minority is down", Promise: "survives node loss", Alone: true, Run: worksWhileAMinorityIsDown},
	{Name: "lost lease is cancelled", Promise: "notices loss", Run: lostLeaseIsCancelled},
	{Name: "readers share, writers do not", Promise: "shared", Run: readersShareWritersDoNot},
	{Name: "waiting writer is served", Promise: "serves writers", Run: waitingWriterIsServed},
}

// The states of a promise.
const (
	Kept      = "kept"      // all its checks passed
	Broken    = "broken"    // a check failed
	Unchecked = "unchecked" // a check could not be made
	NotRun    = "not run"   // a check was not asked for: see go test -run
	NotMade   = "not made"
)

// A Report says what became of each promise, in the order of lock.Promises.List, and why:
// the check that failed, or what a check lacks.
type Report []verify.PromiseState

// Unchecked lists the promises that were made and could not be checked: a test
// notices when one becomes so.
func (r Report) Unchecked() []string {
	var names []string
	for _, p := range r {
		if p.State == Unchecked {
			names = append(names, p.Promise)
		}
	}
	return names
}

// Require fails t for each of the promises that was not kept, and says why; without names,
// for each that was made. Checks that go test -run left out fail nothing.
func (r Report) Require(t testing.TB, promises ...string) {
	t.Helper()
	for _, name := range promises {
		if !slices.ContainsFunc(r, func(p verify.PromiseState) bool {
			return p.Promise == name
		}) {
			t.Errorf("there is no promise %q; the promises are:\n%s", name, r)
		}
	}
	for _, p := range r {
		asked := slices.Contains(promises, p.Promise) || len(promises) == 0 && p.State != NotMade
		if asked && p.State != Kept && p.State != NotRun {
			t.Errorf("%s: %s", p.Promise, strings.TrimSuffix(p.State+": "+p.Why, ": "))
		}
	}
}

// String has a line for each promise.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r {
		line := fmt.Sprintf("  %-20s %s: %s", p.Promise, p.State, p.Why)
		fmt.Fprintln(&b, strings.TrimSuffix(line, ": "))
	}
	return b.String()
}

// judge makes the Report of what became of the checks, by their names.
func judge(promises lock.Promises, results map[string]suite.Result) Report {
	var r Report
	for _, p := range promises.List() {
		state := verify.PromiseState{Promise: p.Name, State: NotMade}
		if p.Made {
			state.State, state.Why = judgePromise(p.Name, results)
		}
		r = append(r, state)
	}
	return r
}

// judgePromise returns the state of a promise that was made, and why. A check that failed
// breaks it, whatever the others found; else the last one that was not made counts. A promise
// without a check would be kept: each needs one in checks.
func judgePromise(name string, results map[string]suite.Result) (state, why string) {
	state = Kept
	for _, c := range checks {
		if c.Promise != name {
			continue
		}

		got, ran := results[c.Name]
		switch {
		case got.Failed:
			return Broken, c.Name
		case !ran:
			state, why = NotRun, c.Name
		case got.Missing != "":
			state, why = Unchecked, got.Missing
		}
	}
	return state, why
}

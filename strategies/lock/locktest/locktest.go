// Package locktest is the conformance suite for a lock. A few lines run it:
//
//	locktest.Run(t, locktest.Factory{
//		Open: func(t testing.TB, w locktest.Worker) lock.Locker { return mine.New(dial(t), w.TTL, w.Timeout) },
//	})
//
// Some checks hold for every lock; the others belong to what the Locker's Promises claim. A lock that breaks a promise
// that it made fails the test. If a check needs a hook that the Factory lacks, it is skipped, and its promise is
// reported as unchecked, never as kept. Workers meet at chosen points: at the steps that the lock reports (see
// lock.Locker), or where a hook brings them. The suite takes about two seconds, most of it waiting, so tests of several
// locks may run in parallel.
//
// [Redis] makes the Factory, with all hooks, of a lock.Kind that needs nothing but the market's Redis. For a lock that
// needs other servers, a test writes a Factory of its own, because it starts those servers: Crash ends the lock's
// connections or its session, Lose deletes its keys or nodes, StopNode stops a minority of its servers.
package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A Factory makes the lock that is tested. Its hooks do to the lock what the checks need. Only Open is required; each
// other field makes more checks possible.
type Factory struct {
	// Open makes the Locker of one more worker, with connections of its own. The suite closes a Locker that is an
	// io.Closer. Whatever else must be closed, Open closes with t.Cleanup, which runs after that.
	Open func(t testing.TB, w Worker) lock.Locker

	// Lose takes the lock called name away from its holder, for example by deleting its key.
	Lose func(t testing.TB, name string)

	// Crash ends a worker as kill -9 does: it closes the worker's connections and releases nothing. The worker may be in
	// the middle of an acquisition.
	Crash func(t testing.TB, l lock.Locker)

	// Expire makes the TTL of the lock called name pass. By default the suite waits until it has passed.
	Expire func(t testing.TB, name string)

	// StopNode stops a minority of the lock's servers, and returns a function that starts them again.
	StopNode func(t testing.TB) (start func())

	// Queued returns how many workers wait for the lock called name. By default the suite learns it from step.Waiting.
	Queued func(t testing.TB, name string) int

	// TTL is short, because the suite waits for it to pass; the lock must support it. The default is 200 ms. Where the
	// TTL must not pass, workers get a longer one.
	TTL time.Duration

	// Patience is the longest time that may pass until the lock is free after a crash, or until a waiter gets it after a
	// release. The default is 30 s. It passes only if the lock fails, or does not report step.Waiting.
	Patience time.Duration

	// Clock says that Open honours Worker.Now.
	Clock bool

	// Bubble says that Open and its Lockers work in a bubble of package testing/synctest, whose clock is decades slow. It
	// is for a lock that reads the time itself. What such Lockers share with others must not contain channels or timers.
	Bubble bool

	// Untimed says that Open cannot honour Worker.Timeout: only the context ends an acquisition.
	Untimed bool

	// Renewing says that leases renew themselves until they are released.
	Renewing bool

	// Parallel says that several tests may call the hooks at a time. All checks but the one that stops a server then run
	// as parallel tests: for a lock whose checks mostly wait.
	Parallel bool
}

// A Worker is what one Locker is made with.
type Worker struct {
	TTL     time.Duration    // how long the lock is held without renewal
	Timeout time.Duration    // how long an acquisition may take
	Steps   step.Observer    // may be nil
	Now     func() time.Time // the worker's wall clock; nil means the true one
}

// Run tests the lock, each behaviour as a subtest. It logs what became of each promise, and returns it.
func Run(t *testing.T, factory Factory) Report {
	promises := newFixture(t, factory).worker().Promises()
	var mu sync.Mutex
	results := map[string]checkResult{}
	run := func(t *testing.T, parallel bool) {
		for _, c := range checks {
			if parallel != (factory.Parallel && c.name != stopsAServer) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if parallel {
					t.Parallel()
				}
				c.on(t, factory, promises, func(r checkResult) {
					mu.Lock()
					defer mu.Unlock()
					results[c.name] = r
				})
			})
		}
	}
	if factory.Parallel {
		t.Run("parallel", func(t *testing.T) { run(t, true) })
	}
	run(t, false)
	report := judge(promises, results)
	t.Logf("promises of this lock:\n%s", report)
	return report
}

// on runs the check, unless it belongs to a promise that was not made, and passes its result to done after the check's
// cleanups.
func (c check) on(t testing.TB, factory Factory, promises lock.Promises, done func(checkResult)) {
	t.Helper()
	f := newFixture(t, factory)
	f.promises = promises
	t.Cleanup(func() {
		if t.Skipped() && f.missing == "" && !f.needless {
			f.missing = "a hook skipped it"
		}
		done(checkResult{ran: true, failed: t.Failed(), missing: f.missing})
	})
	for _, p := range promises.List() {
		if p.Name == c.promise && !p.Made {
			f.skip("it does not promise this")
		}
	}
	c.run(f)
}

// A check is one behaviour. promise is the name, as in Promises.List, of the promise that the check belongs to; if it
// is empty, every lock has to behave so.
type check struct {
	name    string
	promise string
	run     func(*fixture)
}

// stopsAServer disturbs the other checks.
const stopsAServer = "works while a minority is down"

var checks = []check{
	{"try takes a free lock", "", tryTakesAFreeLock},
	{"try of a held lock answers at once", "", tryOfAHeldLockAnswersAtOnce},
	{"waiter gets the lock when it is released", "", waiterGetsIt},
	{"names do not exclude each other", "", namesDoNotExcludeEachOther},
	{"acquisition ends at its time-out", "", acquisitionEndsAtItsTimeout},
	{"context that has ended takes nothing", "", endedContextTakesNothing},
	{"cancellation ends a wait and leaves nothing behind", "", cancellationEndsAWait},
	{"deadline ends a wait and leaves nothing behind", "", deadlineEndsAWait},
	{"renewal keeps the lock", "", renewalKeepsTheLock},
	{"renewal of a lost lock fails", "", renewalOfALostLockFails},
	{"lease that renews itself outlives its TTL", "", leaseRenewsItself},
	{"no goroutine is left behind", "", noGoroutineIsLeftBehind},
	{"workers exclude each other", "exclusive", workersExcludeEachOther},
	{"two who look at the same time exclude each other", "exclusive", lookersExcludeEachOther},
	{"second release frees nothing", "owner-only release", secondReleaseFreesNothing},
	{"release of a lost lock frees nothing", "owner-only release", lostReleaseFreesNothing},
	{"release that was overtaken frees nothing", "owner-only release", overtakenReleaseFreesNothing},
	{"reader frees only itself", "owner-only release", readerFreesOnlyItself},
	{"lease that nobody releases expires", "survives a crash", abandonedLeaseExpires},
	{"crashed holder is succeeded", "survives a crash", crashedHolderIsSucceeded},
	{"crashed waiter is passed over", "survives a crash", crashedWaiterIsPassedOver},
	{"wrong clocks neither steal nor are locked out", "clock-independent", wrongClocksDoNoHarm},
	{"holder enters again", "reentrant", holderEntersAgain},
	{"waiters get it in order", "fair", waitersGetItInOrder},
	{"fences grow", "fenced", fencesGrow},
	{stopsAServer, "survives node loss", worksWhileAMinorityIsDown},
	{"lost lease is cancelled", "notices loss", lostLeaseIsCancelled},
	{"readers share, writers do not", "shared", readersShareWritersDoNot},
	{"waiting writer is served", "serves writers", waitingWriterIsServed},
}

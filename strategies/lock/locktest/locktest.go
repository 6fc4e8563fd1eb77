// Package locktest is the conformance suite for a lock. A few lines run it:
//
//	locktest.Run(t, locktest.Subject{
//		Open: func(t testing.TB, w locktest.Worker) lock.Locker { return mine.New(dial(t), w.TTL, w.Timeout) },
//	})
//
// Some of what it tests holds of every lock; the rest is what the Locker's Promises claim. A lock that breaks a promise
// that it made fails. A promise that cannot be tested without a hook that the Subject lacks is skipped and reported as
// unchecked, never as kept. Workers meet at chosen points: at the steps that the lock tells (see package step), or
// where a hook brings them. The suite takes about two seconds.
//
// A lock.Kind that needs nothing but the market's Redis gets its Subject from [Redis], with all hooks. One that needs other
// servers makes its own, beside tests that start those: Crash ends its connections or its session, Lose deletes its
// keys or nodes, StopNode stops a minority of its servers.
package locktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// A Subject is a lock to be tested, and what can be done to it. Only Open is needed; each further field lets more be
// checked.
type Subject struct {
	// Open makes the Locker of one more worker, with connections of its own. The suite closes a Locker that is an
	// io.Closer; what else must be closed is closed with t.Cleanup, which runs after that.
	Open func(t testing.TB, w Worker) lock.Locker

	// Lose takes the lock called name away from its holder, for example by deleting its key.
	Lose func(t testing.TB, name string)

	// Crash ends a worker as kill -9 does: its connections are closed, and it releases nothing. An acquisition may be
	// under way.
	Crash func(t testing.TB, l lock.Locker)

	// Expire makes the TTL of the lock called name pass. By default the suite waits until it has.
	Expire func(t testing.TB, name string)

	// StopNode stops one of the lock's servers, or a larger minority of them, and returns what starts it again.
	StopNode func(t testing.TB) (start func())

	// Queued tells how many workers wait for the lock called name. By default the suite knows from step.Waiting.
	Queued func(t testing.TB, name string) int

	// Others are goroutines that are not the lock's, and that may come while the suite looks for those that it leaves behind:
	// of servers that run in the test's process.
	Others []goleak.Option

	// TTL is one that the lock can do and that is short enough to let it pass: 200 ms by default. Where it must not pass,
	// workers get a longer one.
	TTL time.Duration

	// Patience is how soon the lock has to be free after a crash, and a waiter has to get it after a release: 10 s by
	// default. Nothing waits for it to pass unless the lock fails.
	Patience time.Duration

	// Clock says that Open honours Worker.Now.
	Clock bool

	// Bubble says that Open and its Lockers can be used in a bubble of package testing/synctest, in which the clock is decades
	// slow: for a lock that takes no clock. What they have in common with other workers must not hold channels or timers.
	Bubble bool

	// Untimed says that Open cannot honour Worker.Timeout: the context alone ends an acquisition.
	Untimed bool

	// Renewing says that leases renew themselves until they are released.
	Renewing bool
}

// A Worker is what one Locker is made with.
type Worker struct {
	TTL     time.Duration    // how long the lock is held without renewal
	Timeout time.Duration    // how long an acquisition may take
	Steps   step.Observer    // may be nil
	Now     func() time.Time // the worker's wall clock; nil means the true one
}

// grace is how long the suite waits for a worker to wait. It passes only where the lock does not tell its steps.
const grace = 300 * time.Millisecond

// Run tests the subject, each behaviour as a subtest, logs what became of each promise, and returns it. Nothing else may
// start goroutines meanwhile: the suite looks for those that the lock leaves behind.
func Run(t *testing.T, subject Subject) Report {
	promises := newFloor(t, subject).worker().Promises()
	outcomes := map[string]outcome{}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			c.on(t, subject, promises, func(o outcome) { outcomes[c.name] = o })
		})
	}
	report := judge(promises, outcomes)
	t.Logf("promises of this lock:\n%s", report)
	return report
}

// A check is one behaviour. Its promise is the name, as in Promises.List, of the promise that it belongs to; no promise
// means that every lock has to behave so.
type check struct {
	name    string
	promise string
	run     func(*floor)
}

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
	{"works while a minority is down", "survives node loss", worksWhileAMinorityIsDown},
	{"lost lease is cancelled", "notices loss", lostLeaseIsCancelled},
	{"readers share, writers do not", "shared", readersShareWritersDoNot},
	{"waiting writer is served", "serves writers", waitingWriterIsServed},
}

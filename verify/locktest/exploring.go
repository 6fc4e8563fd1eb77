package locktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// newExploring begins a schedule, in the bubble of testing/synctest in which that is played:
// began is a time of the bubble's clock.
func newExploring(open Open, w work) *exploring {
	e := &exploring{
		open:    open,
		work:    w,
		began:   time.Now(),
		longest: lease,
		inside:  map[string]*stay{},
		taking:  map[string]*attempt{},
		leaving: map[string]*stay{},
		failed:  map[string]*unrepeated{},
	}

	if w.shared {
		e.longest = 2 * lease
	}
	return e
}

// trial is one schedule: of two clients, one of which locks twice, of one client with two
// goroutines, or of two readers with different leases and a writer. Of two clients, the one
// whose Number is not 0 comes late if they meet, and leaves at once if the work says so.
func (e *exploring) trial() *explore.Trial {
	alice := Worker{Name: "Alice", TTL: lease}
	bob := Worker{Name: "Bob", TTL: e.longest, Number: 1}
	clients := []explore.Client{e.locks(alice, 2), e.locks(bob, 1)}
	if e.work.goroutines {
		clients = clients[:1]
	}
	if e.work.shared {
		alice.Shared = true
		bob.Shared = true
		writer := Worker{Name: "Writer", TTL: lease, Number: 2}
		clients = []explore.Client{e.locks(alice, 1), e.locks(bob, 1), e.locks(writer, 1)}
	}
	return &explore.Trial{
		Clients: clients,
		Judge:   e.judge,
		State:   e.state,
		Close:   e.close,
		Vacuous: e.vacuous,
	}
}

// An exploring is one schedule, and what its clients have done in it.
type exploring struct {
	open    Open
	work    work
	began   time.Time
	longest time.Duration // of the clients' leases

	mu      sync.Mutex
	inside  map[string]*stay
	taking  map[string]*attempt
	clients []*explore.Session
	leaving map[string]*stay // of those that call the release
	free    time.Time        // since when nobody is inside
	// The client that has released last since one entered; empty: none.
	released string
	entered  int
	confined bool // the lock object is documented as one of a single goroutine
	found    []verify.Violation
	err      error                  // why a client did not lock
	failed   map[string]*unrepeated // by client: its release, which is not called again
	closers  redisconn.Closers      // of the clients, for when all have ended
	// Is told which goroutines a client still has a lease after its last release, and had not
	// when it had opened its lock; nil: nobody asks.
	onLeft func(client, stack string)
}

// state is all that the clients' memories have of each other: see explore.Trial. What Seen
// will tell of them from now on is in the state anyway.
func (e *exploring) state() string {
	e.mu.Lock()
	defer e.mu.Unlock()

	// All that the judgement of what comes reads, and no more: what is left out makes states
	// equal that are not, and what is added makes the search longer.
	var b strings.Builder
	fmt.Fprintf(&b, "free %d, released %q, entered %t, %q\n",
		e.since(e.free), e.released, e.entered > 0, e.found)

	for _, name := range slices.Sorted(maps.Keys(e.taking)) {
		a := e.taking[name]
		fmt.Fprintf(&b, "%s takes %t %d %d %t %d %t\n", name, a.calls,
			e.since(a.began), a.before.Faults, a.before.Calm.IsZero(), a.gap, a.listened)
	}

	for _, name := range slices.Sorted(maps.Keys(e.failed)) {
		fmt.Fprintf(&b, "the release of %s has failed, %d\n", name, e.failed[name].changes)
	}

	for _, stays := range []map[string]*stay{e.inside, e.leaving} {
		b.WriteString("inside, or leaving\n")
		for _, name := range slices.Sorted(maps.Keys(stays)) {
			s := stays[name]
			fmt.Fprintf(&b, "%s %d %d %d %d %t %d %t\n", name, e.since(s.asked), e.since(s.delayed),
				e.since(s.entered), s.changes, s.extends, s.atEntry, e.overtaken(s))
		}
	}
	return b.String()
}

// since is a time of the schedule; -1: none.
func (e *exploring) since(t time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return t.Sub(e.began)
}

// An attempt is a client that tries to take the lock, until it has it.
type attempt struct {
	*explore.Session
	calls  bool // the lock, and does not wait between two tries
	began  time.Time
	before explore.Seen  // when it began
	gap    time.Duration // the longest between two of its requests
	// It has waited for a message at some time, and may have missed it.
	listened bool
}

// An unrepeated is a client whose release has failed, and is not called again.
type unrepeated struct {
	*explore.Session
	changes int // its requests that had changed something by then
}

type stay struct {
	*explore.Session
	Worker
	asked   time.Time // when it began to take the lock, or later
	delayed time.Time // when it began to take the lock, if a fault has struck since; zero: none has
	entered time.Time
	changes int  // its requests that had changed something when it began to leave
	number  int  // how many had entered when it had, itself included
	extends bool // the lock, right now: a call of Extend is under way
	// While it extends the lock: its requests that had changed something when another client
	// got in; -1: none has.
	atEntry int
	// Another goroutine of its client takes the lock, too: what is Seen may be of that one.
	isOneOfTwo bool
}

func (e *exploring) locks(w Worker, times int) explore.Client {
	return explore.Client{Name: w.Name, Do: func(ctx context.Context, s *explore.Session) string {
		return e.client(ctx, s, w, times)
	}}
}

// A user is a client with its lock.
type user struct {
	*explore.Session
	Worker
	lock     Lock
	extender Extender // nil: it cannot extend
	work     *redisconn.Conn
	rest     time.Duration // between two calls of the lock
}

// opens opens the lock of a client, and a connection of its own for its work.
func (e *exploring) opens(ctx context.Context, s *explore.Session, w Worker) (*user, error) {
	toServer := func(ctx context.Context) (net.Conn, error) {
		return s.Connect(ctx, "", "")
	}
	work, err := redisconn.Over(toServer).WithReplyTimeout(s.ReplyTimeout()).Dial(ctx)
	if err != nil {
		return nil, err
	}

	// Its lock dials for itself. What it has opened is closed at the end, even if it then failed.
	e.update(func() { e.clients = append(e.clients, s) })
	w.Timeout = lockTimeout
	w.dial = s.Connect
	l, closer, err := e.open(ctx, w)
	if closer != nil {
		e.update(func() {
			e.closers = append(e.closers, closer)
		})
	}
	if err != nil {
		e.update(func() { e.err = err })
		_ = work.Close()
		return nil, fmt.Errorf("could not open its lock: %w", err)
	}

	_, confined := closer.(Confined)
	e.update(func() { e.confined = confined })
	extender, _ := closer.(Extender)
	return &user{
		Session:  s,
		Worker:   w,
		lock:     l,
		extender: extender,
		work:     work,
		rest:     lease / 3,
	}, nil
}

// client locks and unlocks a number of times. Inside it makes a request, so that
// another client may come before it.
func (e *exploring) client(ctx context.Context, s *explore.Session, w Worker, times int) string {
	u, err := e.opens(ctx, s, w)
	if err != nil {
		return err.Error()
	}
	defer u.work.Close()
	if e.work.goroutines {
		return e.twoGoroutines(ctx, u)
	}

	// Counted before it takes the lock: what its opening has started may stay.
	var opened map[string]int
	if e.onLeft != nil {
		opened = s.Goroutines()
	}

	// It makes a request before it waits: without a preemption it is then the client that was
	// chosen last, and comes first when both can go on, at the release of the other one.
	if e.work.meet && w.Number > 0 {
		u.asks(ctx)
		e.works(ctx)
	}

	locked := 0
	for range times {
		there, unlock, err := e.takes(ctx, u)
		if errors.Is(err, errGivenUp) {
			continue
		}
		if err != nil {
			e.update(func() { e.err = err })
			return fmt.Sprintf("has locked %d times, then not: %v", locked, err)
		}

		locked++
		e.enter(w.Name, there)
		err = e.workAndUnlock(ctx, u, unlock)
		if err != nil {
			return fmt.Sprintf("has locked %d times, and could not unlock: %v", locked, err)
		}
	}
	e.lingers(ctx, s, w.Name)
	if e.onLeft != nil {
		e.tellLeft(s, w.Name, opened)
	}
	return fmt.Sprintf("has locked %d times", locked)
}

// tellLeft tells of the goroutines that a client has now, and had not when it had opened its
// lock. Its own stands elsewhere by now: it is known by the name of this method in its stack.
func (e *exploring) tellLeft(s *explore.Session, name string, opened map[string]int) {
	for stack, n := range s.Goroutines() {
		isOwn := strings.Contains(stack, "locktest.(*exploring).tellLeft")
		if n > opened[stack] && !isOwn {
			e.update(func() {
				e.onLeft(name, stack)
			})
		}
	}
}

// asks makes the request of a client that works. It conflicts with that of the other one, who
// may come before it, and changes nothing, so that nobody can tell in which order they came.
func (u *user) asks(ctx context.Context) { _ = u.work.Del(ctx, "work").Err() }

// workAndUnlock makes a request inside, works, and unlocks. The call that unlocks begins before
// the work, so that an unlock that is deferred is tried after its context has ended, too, which
// does not end the work. An unlock that fails is called once more, as documentation tells users,
// but where its work says once.
func (e *exploring) workAndUnlock(
	ctx context.Context, u *user, unlock func(context.Context) error) error {

	call, end := u.Call(ctx)
	defer end()

	u.asks(ctx)
	// One that leaves does no work, so that it has had the lock, and gone, when the other extends.
	leaves := e.work.leaves && u.Worker.Number > 0
	if !leaves {
		e.works(ctx)
	}
	if e.work.extends && !leaves && e.extends(call, u) {
		e.works(ctx)
	}

	err := e.unlock(call, u.Session, u.Name, unlock)
	if err != nil && e.work.once {
		e.update(func() {
			e.failed[u.Name] = &unrepeated{
				Session: u.Session,
				changes: u.Seen().Changes,
			}
		})
		return err
	}
	return e.unlockAgain(ctx, u, err, unlock)
}

// unlockAgain unlocks once more if the first time has failed. ctx is the client's life, and no
// call that may have been given up.
func (e *exploring) unlockAgain(
	ctx context.Context, u *user, first error, unlock func(context.Context) error) error {

	if first == nil {
		return nil
	}
	err := unlock(ctx)
	e.update(func() { e.released = u.Name })
	return err
}

// errGivenUp is why a client does not lock if it has given up the call.
var errGivenUp = errors.New("the call was given up")

// works lets the time of the work pass, or if clients meet, what is left of it.
func (e *exploring) works(ctx context.Context) {
	left := e.work.lasts
	if e.work.meet {
		left = time.Until(e.began.Add(e.work.lasts))
	}
	_ = locking.Sleep(ctx, left, nil) // the next request says if ctx has ended
}

// update has a client change what all clients share.
func (e *exploring) update(write func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	write()
}

// takes calls a Lock until it takes the lock, and returns how the client came in, and how it
// unlocks. The error is an errGivenUp if a fault has ended the call of a client that lives on.
// Any other says that the client did not get in before its patience or its life ended.
func (e *exploring) takes(ctx context.Context, u *user) (
	there *stay, unlock func(context.Context) error, err error) {

	s := u.Session
	w := u.Worker
	call, end := s.Call(ctx)
	defer end()

	// Two who give up at one instant would have their goroutines run in either order.
	patience := lockTimeout + time.Duration(w.Number)*time.Millisecond
	bounded, cancel := context.WithTimeout(call, patience)
	defer cancel()

	// Each call resets what Seen has of gaps, so that the rest between two of them is never in it: a
	// gap is no less than that.
	a := &attempt{Session: s, began: time.Now(), before: s.Seen(), gap: lease / 3}
	defer e.update(func() {
		delete(e.taking, w.Name)
	})
	for {
		asked := time.Now()
		pauses := s.Pauses()
		s.Waits() // before calls is set: what an earlier call of the lock changed does not count
		e.update(func() {
			a.calls = true
			e.taking[w.Name] = a
		})
		unlock, err = u.lock(bounded, "lock")
		e.waited(a, w.Name, err == nil)

		if err == nil {
			// A lease of which servers know nothing counts from now. If the client was paused, the
			// lock may have been taken before that: then it counts from the call. Of one of two
			// goroutines it is not known what delays it.
			if s.Pauses() == pauses && !e.work.goroutines {
				asked = time.Now()
			}
			there = &stay{Session: s, Worker: w, asked: asked, isOneOfTwo: e.work.goroutines}
			// A fault was under way when the attempt began, or has happened since.
			if a.before.Calm.IsZero() || s.Seen().Faults > a.before.Faults {
				there.delayed = a.began
			}
			return there, unlock, nil
		}

		switch {
		case call.Err() != nil && ctx.Err() == nil:
			return nil, nil, fmt.Errorf("%w: %w", errGivenUp, err)
		case locking.Sleep(bounded, u.rest, nil) != nil:
			return nil, nil, err
		}
	}
}

// close closes what the clients have opened.
func (e *exploring) close() { _ = e.closers.Close() }

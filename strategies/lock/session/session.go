// Package session holds the locks that servers of their own keep for as long as
// a session lasts: [ZooKeeper] and [Etcd]. They are apart from package lock
// because of what they import.
//
// A worker has one session, which its client keeps alive in the background. To
// take a lock it takes a place in line, which is bound to the session, and waits
// until the place before its own is gone. When a worker dies, the servers end its
// session after a time-out, the TTL, and with it all its places. A lease's context
// ends before that: see [term].
//
// What breaks them: a holder that is paused for longer than the TTL between a check of
// its context and its write. Only a store that checks the fence can stop that write. A
// place that someone removes by hand is missed at the release only. Each acquisition and
// each release is written to the disks of a majority of the servers.
package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/lock"
)

// ErrUnreachable is returned, wrapped, by Kind.New if no server answered in time, and by
// the functions of a lease whose only server is silent.
var ErrUnreachable = errors.New("no answer from the lock's servers")

const (
	connectTimeout = 20 * time.Second // a busy machine is slow, and private servers have just started
	// abandonTimeout bounds how long a caller that gave up waits until its place is given
	// up, which goes on after that.
	abandonTimeout = 2 * time.Second
	// lookTimeout bounds how long one who does not wait for others looks for a server, or
	// begins a session.
	lookTimeout = 5 * time.Second
	retryEvery  = 20 * time.Millisecond
)

// A client is a worker's session and what it does there.
type client interface {
	// place returns a place in line for a lock, which is not taken yet.
	place(name string, c *calls) place
	// close ends the session, and with it all places.
	close() error
	// leave ends what keeps the session alive, and leaves the session to expire.
	leave() error
}

type place interface {
	// take returns when the place is the first in line: the lock is held for the term,
	// under a fence. It waits for others until a time and returns ErrTimeout or ctx's
	// error then; it returns ErrHeld instead where that time is zero.
	take(ctx context.Context, until time.Time) (held *term, fence int64, err error)
	// leave gives the place up. It returns ErrLost if there was none.
	leave() error
}

// promises are those with three servers or more.
var promises = lock.Promises{
	Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
	Fair: true, Fenced: true,
	SurvivesNodeLoss: true, NoticesLoss: true,
}

// complete adds to a kind what the locks of sessions have in common. join makes a
// worker's client of its servers.
func complete(k lock.Kind, servers func(lock.Servers) []string,
	join func(l *locker, servers []string, patience time.Duration) (client, error),
) lock.Kind {
	k.Wakes = "watch"
	k.Keys = func(string) []string { return nil } // nothing in Redis
	k.OwnClock = true
	k.New = func(env lock.Env) (lock.Locker, error) {
		addrs := servers(env.Servers)
		if len(addrs) == 0 {
			return nil, fmt.Errorf("%w: %s needs the address of a server", lock.ErrServers, k.Name)
		}

		// silent never ends, unless joinZoo puts another one in its place.
		l := &locker{env: env, promises: k.PromisesOf(env.Params), silent: context.Background}
		// As far as is known: an address may stand for several servers.
		l.promises.SurvivesNodeLoss = len(addrs) >= 3
		l.closing, l.stop = context.WithCancel(context.Background())
		l.close = sync.OnceValue(l.end)

		l.join = func() (err error) {
			l.client, err = join(l, addrs, connectTimeout)
			if err != nil {
				return fmt.Errorf("%w: %s at %s: %w; is it running, and is this its address?",
					ErrUnreachable, k.Name, strings.Join(addrs, ","), err)
			}
			return nil
		}

		if err := l.join(); err != nil {
			l.stop()
			return nil, err
		}
		return l, nil
	}
	return k
}

type locker struct {
	env      lock.Env
	promises lock.Promises
	join     func() error
	client   client                 // nil: the session was left, and another one has not begun
	silent   func() context.Context // ends when the servers no longer answer

	work    calls // beside the worker
	closing context.Context
	stop    context.CancelFunc
	close   func() error
}

func (l *locker) Promises() lock.Promises { return l.promises }

// Close implements io.Closer. Locks that are still held are released.
func (l *locker) Close() error { return l.close() }

func (l *locker) end() error {
	l.stop()
	var err error
	if l.client != nil {
		err = l.client.close()
	}
	l.work.Wait() // last: calls that it waits for may end only with the client
	return err
}

// leastTime is for one look at the line, however short the time-out.
const leastTime = time.Second

// Acquire implements lock.Locker. A waiter that loses its session queues again.
func (l *locker) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	timeout := l.env.Params.Duration(lock.TimeoutParam)
	until := time.Now().Add(timeout)
	bounded, cancel := context.WithTimeout(ctx, max(timeout, leastTime))
	defer cancel()
	lease, err := l.take(bounded, name, until)

	// Whatever failed after the time-out counts as ErrTimeout, unless the caller's ctx has ended.
	timedOut := ctx.Err() == nil && !time.Now().Before(until)
	if err != nil && timedOut && !errors.Is(err, lock.ErrTimeout) {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return lease, nil
}

// Try implements lock.Locker. It queues for a moment.
func (l *locker) Try(ctx context.Context, name string) (*lock.Lease, error) {
	lease, err := l.take(ctx, name, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return lease, nil
}

// take takes the lock, or gives its place up: beside the worker if that takes long, at
// the latest with the session.
func (l *locker) take(ctx context.Context, name string, until time.Time) (*lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.client == nil {
		if err := l.join(); err != nil {
			return nil, err
		}
	}

	h := &hold{locker: l, client: l.client, name: name}
	h.place = l.client.place(name, &h.calls) // leave waits for these calls
	var err error
	h.term, h.fence, err = h.place.take(ctx, until)
	if err == nil {
		return &lock.Lease{
			Noticed: h.term.ctx,
			Fence:   h.fence,
			Release: h.release,
			Abandon: h.abandon,
		}, nil
	}

	leaving, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	defer context.AfterFunc(l.silent(), cancel)() // servers that no longer answer are not waited for
	left := h.leave(leaving)

	mayBeThere := left != nil && !errors.Is(left, lock.ErrLost)
	if mayBeThere && !errors.Is(err, ErrUnreachable) {
		err = fmt.Errorf("%w (and the place in line may still be there: %w)", err, left)
	}
	return nil, err
}

// hold is an acquisition and, when it has succeeded, the lease.
type hold struct {
	locker *locker
	client client
	name   string
	place  place
	calls  calls
	term   *term
	fence  int64
	left   atomic.Bool // or is about to be
}

// errEmpty is the cause with which a term ends whose session a client ends at its last release.
var errEmpty = errors.New("nothing is held in the session any more")

// release does not wait for a connection that is lost: the place is then given
// up beside the worker.
func (h *hold) release(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The wait also ends with the term, and when the servers no longer answer.
	for _, other := range []context.Context{h.term.ctx, h.locker.silent()} {
		defer context.AfterFunc(other, func() {
			if cause := context.Cause(other); cause != errEmpty { // which is this release's own doing
				cancel(cause)
			}
		})()
	}

	err := h.leave(ctx)
	if errors.Is(context.Cause(h.term.ctx), lock.ErrLost) {
		err = lock.ErrLost // even if the session lives on: its holder has seen its context end
	}
	if err != nil {
		return fmt.Errorf("release lock %s: %w", h.name, err)
	}
	return nil
}

// abandon leaves the session to expire with all its places. The next
// acquisition begins another one.
func (h *hold) abandon() {
	if h.locker.client == h.client {
		h.locker.client = nil
		h.locker.work.Go(func() {
			_ = h.client.leave() // nobody waits for it
		})
	}
}

// leave gives the place up once no call about it is under way. When ctx ends first
// it goes on beside the worker.
func (h *hold) leave(ctx context.Context) error {
	done := make(chan error, 1)
	h.locker.work.Go(func() { // even if ctx has ended
		h.calls.Wait()
		if h.left.Swap(true) {
			done <- lock.ErrLost
		} else {
			done <- h.place.leave()
		}
	})

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// repeat makes a call until it succeeds or fails for good, over ends, or the
// Locker is closed.
func (l *locker) repeat(over context.Context, call func(context.Context) error) error {
	for {
		ctx, cancel := context.WithTimeout(l.closing, abandonTimeout)
		err := call(ctx)
		cancel()
		if err == nil || lasting(err) {
			return err
		}
		_ = locking.Sleep(l.closing, retryEvery, over.Done())
		if over.Err() != nil || l.closing.Err() != nil {
			return err
		}
	}
}

// calls are under way: a client library does not return as soon as a context ends.
type calls struct{ sync.WaitGroup }

// await makes a call. When ctx ends first it returns ctx's error at once, and the
// call ends by itself.
func (c *calls) await(ctx context.Context, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	done := make(chan error, 1)
	c.Go(func() {
		done <- call()
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market/step"
)

// ErrNoPolls is returned by WithLocal for a lock whose waiters do not poll.
var ErrNoPolls = errors.New("waiters of the lock do not poll, so that there is nothing to queue for")

// WithLocal returns kind with its workers queueing in their process first: those of one process get the lock one after
// the other, in the order in which they came, and only the first of them asks the server. Who holds the lock stays first
// until it is released; a reader makes way as soon as it has the lock. The time in the queue counts to the time-out. A
// worker whose attempt failed, who gave up or whose context ended leaves the queue. Workers of other processes are
// strangers as before. WithLocal returns ErrNoPolls, wrapped, if kind's waiters do not poll.
//
// What breaks it: a worker that is stuck. The server lets its lock expire, and other processes go on; its own process
// waits until it comes back. Two locks that two workers take in different orders block both until a time-out, though the
// server's locks may have expired. And the process that holds the lock has no advantage: its next worker asks again.
//
// Source: the in-process mutex before a distributed one in libraries such as JuiceFS; MCS locks for the order.
func WithLocal(kind Kind) (Kind, error) {
	if kind.Wakes != wakesByPoll {
		return Kind{}, fmt.Errorf("%w: %s", ErrNoPolls, kind.Name)
	}
	open := kind.New
	kind.Name += "+local"
	kind.Summary += "; workers of one process queue in it first"
	kind.New = func(env Env) (Locker, error) {
		queues, err := processQueues(env.Process)
		if err != nil {
			return nil, err
		}
		locker, err := open(env)
		if err != nil {
			return nil, err
		}
		l := &localQueuer{Locker: locker, queues: queues, env: env, timeout: env.Params.Duration(TimeoutParam)}
		if _, ok := locker.(SharedLocker); ok {
			return &localSharedQueuer{l}, nil
		}
		return l, nil
	}
	return kind, nil
}

// spender is a Locker that polls: part of the time-out of its next acquisition has passed already.
type spender interface{ Spend(time.Duration) }

// localQueuer is a Locker that queues in its process.
type localQueuer struct {
	Locker
	queues  *queues
	env     Env
	timeout time.Duration
}

// Polls implements Poller.
func (l *localQueuer) Polls() int64 {
	if p, ok := l.Locker.(Poller); ok {
		return p.Polls()
	}
	return 0
}

// Close implements io.Closer. What the worker has not released keeps nobody of its process out any more.
func (l *localQueuer) Close() error {
	l.queues.leaveAll(l)
	if c, ok := l.Locker.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Acquire implements Locker.
func (l *localQueuer) Acquire(ctx context.Context, name string) (Lease, error) {
	p, err := l.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	lease, err := l.Locker.Acquire(ctx, name)
	return p.keep(lease, err)
}

// Try implements Locker. It does not ask the server while another worker of the process is first.
func (l *localQueuer) Try(ctx context.Context, name string) (Lease, error) {
	p := l.queues.join(l.env.Key(name), l)
	select {
	case <-p.first:
	default:
		p.leave()
		return nil, fmt.Errorf("try lock %s: %w", name, ErrHeld)
	}
	lease, err := l.Locker.Try(ctx, name)
	return p.keep(lease, err)
}

// localSharedQueuer is a SharedLocker that queues in its process.
type localSharedQueuer struct{ *localQueuer }

// AcquireShared implements SharedLocker. Readers of one process read together.
func (l *localSharedQueuer) AcquireShared(ctx context.Context, name string) (Lease, error) {
	p, err := l.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	return l.Locker.(SharedLocker).AcquireShared(ctx, name)
}

// queue returns when the worker is the first of its process at a lock. A worker that is first already goes on: whether
// it may have the lock again is for the lock to say.
func (l *localQueuer) queue(ctx context.Context, name string) (*place, error) {
	start, p := time.Now(), l.queues.join(l.env.Key(name), l)
	select {
	case <-p.first:
		return p, nil
	default:
	}
	l.env.Steps.At(ctx, step.Waiting)
	late := time.NewTimer(time.Until(start.Add(l.timeout)))
	defer late.Stop()
	var err error
	select {
	case <-p.first:
		if s, ok := l.Locker.(spender); ok {
			s.Spend(time.Since(start))
		}
		return p, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = ErrTimeout
	}
	p.leave()
	return nil, fmt.Errorf("acquire lock %s: wait for others of this process: %w", name, err)
}

// queues are those of a process, one for each lock that somebody of it holds or waits for. They are safe for concurrent
// use.
type queues struct {
	mu     sync.Mutex
	places map[string][]*place // by the lock's key, in order of arrival
}

// processQueues are those of a process; new ones for a worker that is alone in its process.
func processQueues(p *Process) (*queues, error) {
	create := func() (io.Closer, error) { return &queues{places: map[string][]*place{}}, nil }
	if p == nil {
		p = &Process{}
	}
	shared, err := p.Share("queues of locks", create)
	if err != nil {
		return nil, err
	}
	return shared.(*queues), nil
}

// Close implements io.Closer, which Process asks for.
func (*queues) Close() error { return nil }

// place is a worker's place in a queue.
type place struct {
	queues  *queues
	key     string
	owner   *localQueuer
	first   chan struct{} // closed once it is the first
	entries int           // acquisitions and leases that need it; guarded by queues.mu
}

// join puts a worker last. One that is first has its place already.
func (q *queues) join(key string, owner *localQueuer) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.places[key]
	if len(all) > 0 && all[0].owner == owner {
		all[0].entries++
		return all[0]
	}
	p := &place{queues: q, key: key, owner: owner, first: make(chan struct{}), entries: 1}
	if q.places[key] = append(all, p); len(all) == 0 {
		close(p.first)
	}
	return p
}

// leave gives the place up once nothing needs it.
func (p *place) leave() {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	if p.entries--; p.entries == 0 {
		p.queues.remove(p)
	}
}

// leaveAll gives up all places of a worker.
func (q *queues) leaveAll(owner *localQueuer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, all := range q.places {
		for _, p := range slices.Clone(all) {
			if p.owner == owner {
				q.remove(p)
			}
		}
	}
}

// remove takes a place out of its queue. If it was the first, the next one is.
func (q *queues) remove(p *place) {
	at := slices.Index(q.places[p.key], p)
	if at < 0 {
		return // its worker was closed
	}
	rest := slices.Delete(q.places[p.key], at, at+1)
	q.places[p.key] = rest
	switch {
	case len(rest) == 0:
		delete(q.places, p.key)
	case at == 0:
		close(rest[0].first)
	}
}

// keep keeps the place as long as the lease is held, or leaves if there is none.
func (p *place) keep(lease Lease, err error) (Lease, error) {
	if err != nil {
		p.leave()
		return nil, err
	}
	held := &placedLease{Lease: lease, place: p}
	if _, ok := lease.(Renewer); ok {
		return placedRenewer{held}, nil
	}
	return held, nil
}

// placedLease is a lease whose worker stays first in its process.
type placedLease struct {
	Lease
	place *place
	left  bool
}

// Release implements Lease. Whatever came of it, it is the next worker's turn to ask.
func (l *placedLease) Release(ctx context.Context) error {
	err := l.Lease.Release(ctx)
	if !l.left {
		l.left = true
		l.place.leave()
	}
	return err
}

// Fence implements Fencer. It returns 0 if the lease under it is not a Fencer.
func (l *placedLease) Fence() int64 {
	if f, ok := l.Lease.(Fencer); ok {
		return f.Fence()
	}
	return 0
}

// Reenter implements Reentrant. It returns ErrHeld if the lease under it is not Reentrant: its own holder has the lock.
func (l *placedLease) Reenter(ctx context.Context) (Lease, error) {
	reentrant, ok := l.Lease.(Reentrant)
	if !ok {
		return nil, ErrHeld
	}
	p := l.place.queues.join(l.place.key, l.place.owner)
	again, err := reentrant.Reenter(ctx)
	return p.keep(again, err)
}

// placedRenewer is a placedLease that can be renewed.
type placedRenewer struct{ *placedLease }

// Renew implements Renewer.
func (l placedRenewer) Renew(ctx context.Context) error { return l.Lease.(Renewer).Renew(ctx) }

// modifiers are what may follow a lock's name, in the order in which they are written and applied.
var modifiers = []struct {
	name  string
	apply func(Kind) (Kind, error)
}{{"watchdog", WithWatchdog}, {"local", WithLocal}}

// Modifiers are the names of what may follow a lock's name after a +, in canonical order.
func Modifiers() (names []string) {
	for _, m := range modifiers {
		names = append(names, m.name)
	}
	return names
}

// WithModifiers returns kind with modifiers of these names, in canonical order.
func WithModifiers(kind Kind, names ...string) (Kind, error) {
	for _, m := range modifiers {
		if !slices.Contains(names, m.name) {
			continue
		}
		var err error
		if kind, err = m.apply(kind); err != nil {
			return Kind{}, err
		}
	}
	return kind, nil
}

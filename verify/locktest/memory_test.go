package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A fault is something that a lock does wrong.
type fault string

// memory is a server of locks that keep every promise, but for its fault.
type memory struct {
	mu       sync.Mutex
	rooms    map[string]*room
	fault    fault
	promises lock.Promises
	down     bool          // a node is
	over     chan struct{} // closed when the test is over: nobody waits any more
}

// room is one lock.
type room struct {
	holders []*memoryLease // one writer, or readers
	line    []*memoryLocker
	fence   int64
}

var everything = lock.Promises{
	Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
	Reentrant: true, Fair: true,
	Fenced: true, SurvivesNodeLoss: true, NoticesLoss: true, Shared: true, ServesWriters: true,
}

func newMemory(t testing.TB, f fault) *memory {
	m := &memory{rooms: map[string]*room{}, fault: f, promises: everything, over: make(chan struct{})}
	t.Cleanup(func() { close(m.over) })
	return m
}

// factory has all hooks.
func (m *memory) factory() Factory {
	return Factory{
		Open: func(_ testing.TB, w Worker) lock.Locker {
			return &memoryLocker{m: m, Worker: w}
		},
		Lose:  func(_ testing.TB, name string) { m.lose(name) },
		Crash: func(_ testing.TB, l lock.Locker) { m.crash(l.(*memoryLocker)) },
		StopNode: func(testing.TB) func() {
			m.stop(true)
			return func() { m.stop(false) }
		},
		Clock:    true,
		TTL:      100 * time.Millisecond,
		Patience: 600 * time.Millisecond,
	}
}

func (m *memory) stop(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) lose(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.room(name).holders {
		l.end()
	}
	m.room(name).holders = nil
}

func (m *memory) crash(l *memoryLocker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.dead = true
	if m.fault == deadStayInLine {
		return
	}
	for _, r := range m.rooms {
		r.leave(l)
	}
}

func (m *memory) room(name string) *room {
	if m.fault == oneForAllNames {
		name = ""
	}
	if m.rooms[name] == nil {
		m.rooms[name] = &room{}
	}
	return m.rooms[name]
}

func (r *room) leave(l *memoryLocker) {
	r.line = slices.DeleteFunc(r.line, func(other *memoryLocker) bool {
		return other == l
	})
}

// expire drops the holders whose TTL has passed.
func (m *memory) expire(r *room, now time.Time) {
	if m.fault == neverExpires {
		return
	}
	r.holders = slices.DeleteFunc(r.holders, func(l *memoryLease) bool {
		over := !now.Before(l.expires)
		if over {
			l.end()
		}
		return over
	})
}

// memoryLocker is a worker.
type memoryLocker struct {
	m *memory
	Worker
	dead    bool
	reading bool
}

var errDead = errors.New("connection closed")

func (l *memoryLocker) Promises() lock.Promises { return l.m.promises }

func (l *memoryLocker) now() time.Time {
	if l.Now == nil || l.m.fault != trustsClocks {
		return time.Now()
	}
	return l.Now()
}

func (l *memoryLocker) Try(ctx context.Context, name string) (*lock.Lease, error) {
	if l.m.fault == tryIsSlow {
		<-time.After(l.m.factory().Patience + 50*time.Millisecond)
	}
	if l.m.fault == tryFails {
		return nil, errors.New("it cannot try")
	}
	l.reading = false
	return l.attempt(ctx, name, false)
}

func (l *memoryLocker) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	l.reading = false
	return l.wait(ctx, name)
}

func (l *memoryLocker) AcquireShared(ctx context.Context, name string) (*lock.Lease, error) {
	l.reading = l.m.fault != readersExclude
	return l.wait(ctx, name)
}

func (l *memoryLocker) wait(ctx context.Context, name string) (*lock.Lease, error) {
	every := time.Millisecond
	if l.m.fault == sleepsOn {
		every = time.Minute
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	timeout := time.After(l.Timeout)

	for {
		lease, err := l.attempt(ctx, name, true)
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, l.giveUp(name, err)
		}

		l.Steps.At(ctx, step.Waiting)

		done := ctx.Done()
		if l.m.fault == deafToContext {
			done = nil
		}

		select {
		case <-tick.C:
		case <-timeout:
			return nil, l.giveUp(name, lock.ErrTimeout)
		case <-done:
			return nil, l.giveUp(name, ctx.Err())
		case <-l.m.over:
			return nil, errDead
		}
	}
}

func (l *memoryLocker) giveUp(name string, err error) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()

	switch l.m.fault {
	case keepsItsPlace:
		return err
	case deadStayInLine:
		if l.dead {
			return err
		}
	case freesWhenCancelled:
		l.m.room(name).holders = nil
	case flattensErrors:
		err = errors.New("failed")
	}

	l.m.room(name).leave(l)
	return err
}

// attempt takes the lock if it can.
func (l *memoryLocker) attempt(ctx context.Context, name string, queue bool) (*lock.Lease, error) {
	if err := ctx.Err(); err != nil && l.m.fault != deafToContext {
		return nil, err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	r := l.m.room(name)

	if l.dead {
		return nil, errDead
	}
	if l.m.down && l.m.fault == needsAllNodes {
		return nil, errors.New("node is down")
	}

	l.m.expire(r, l.now())
	if !l.may(r) {
		if queue && !slices.Contains(r.line, l) {
			r.line = append(r.line, l)
		}
		return nil, lock.ErrHeld
	}
	return l.take(name, r), nil
}

// may reports whether the rules let the worker in.
func (l *memoryLocker) may(r *room) bool {
	holds := func(who func(*memoryLease) bool) bool {
		return slices.ContainsFunc(r.holders, who)
	}
	if l.m.fault != shutsHolderOut && holds(func(h *memoryLease) bool {
		return h.locker == l
	}) {
		return true
	}

	turn := len(r.line) == 0 || r.line[0] == l
	free := len(r.holders) == 0
	if l.reading {
		free = !holds(func(h *memoryLease) bool {
			return !h.reading
		})
	}

	switch l.m.fault {
	case letsAllIn:
		free = true
	case writesAmongReaders:
		free = free || holds(func(h *memoryLease) bool {
			return h.reading
		})
	case lastFirst:
		turn = len(r.line) == 0 || r.line[len(r.line)-1] == l
	case starvesWriters:
		turn = turn || l.reading
	}
	return free && turn
}

func (l *memoryLocker) take(name string, r *room) *lock.Lease {
	r.leave(l)
	if l.m.fault != repeatsFences {
		r.fence++
	}

	lease := &memoryLease{
		locker:  l,
		name:    name,
		reading: l.reading,
		fence:   r.fence,
		expires: l.now().Add(l.TTL),
	}

	for _, other := range r.holders {
		if l.m.fault == readersShareLease && l.reading {
			other.expires = lease.expires
		}
	}

	lease.ctx, lease.cancel = context.WithCancelCause(context.Background())
	r.holders = append(r.holders, lease)

	return &lock.Lease{
		Noticed: lease.ctx,
		Fence:   lease.fence,
		Release: lease.Release,
		Renew:   lease.Renew,
	}
}

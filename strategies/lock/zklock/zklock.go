// Package zklock is the ZooKeeper lock. It is apart from package lock because of what it imports.
package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrUnreachable is returned, wrapped, by Kind.New when no ZooKeeper server answered in time.
var ErrUnreachable = errors.New("cannot reach ZooKeeper")

const ttlDefault = 10 * time.Second

var (
	ttlParam = param.Duration("ttl", ttlDefault, 100*time.Millisecond,
		"session timeout: how long a dead holder keeps the lock; the server may make it longer or shorter")
	timeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take")
)

// Kind is ZooKeeper's lock recipe. A worker makes an ephemeral sequential node under the lock's node and lists them
// all: the lowest number holds the lock, and everybody else watches the one node before its own, so that a release
// wakes one waiter. To release is to delete the node. Its fence is the node's czxid, the number of the transaction
// that made it, because the sequence starts again at 0 when the lock's node is made anew.
//
// A node carries a random token in its name, by which its worker finds it when the reply to its creation was lost. The
// lock's own nodes are containers, which the server removes some time after the last node in them is gone; what is
// empty when the run ends is removed at once.
//
// It promises that only its holder releases it; that waiters get it in the order they came; that a crashed holder
// holds it no longer than its session lasts; that clients' clocks do not matter; that with an ensemble of three or
// more it works on while a minority is down. A lease's context ends when its session does, or when three quarters of
// the session timeout have passed since the last request was sent that the server has answered: a quarter before it
// can give the lock to someone else.
//
// What breaks it: a holder that is paused for longer than the session timeout between a check of its context and its
// write. Only a store that checks the fence can stop that write. A node that someone deletes by hand is missed at the
// release only. Each acquisition and each release is written to the disks of a majority of the servers.
//
// Source: ZooKeeper Recipes and Solutions, "Locks".
func Kind() lock.Kind {
	promises := lock.Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true, Fenced: true,
		SurvivesNodeLoss: true, NoticesLoss: true,
	}
	return lock.Kind{
		Name:     "zookeeper",
		Summary:  "ephemeral sequential nodes; each waiter watches the one before; a lost session cancels the lease",
		Source:   `ZooKeeper Recipes, "Locks"`,
		Wakes:    "watch",
		Promises: promises,
		Params:   []param.Param{ttlParam, timeoutParam},
		Keys:     func(string) []string { return nil }, // nothing in Redis
		Needs:    lock.NeedsZooKeeper,
		OwnClock: true,
		New: func(env lock.Env) (lock.Locker, error) {
			servers := env.Servers.ZooKeeper
			if len(servers) == 0 {
				return nil, fmt.Errorf("%w: zookeeper needs the address of a ZooKeeper server", lock.ErrServers)
			}
			promises := promises
			promises.SurvivesNodeLoss = len(servers) >= 3 // as far as is known: an address may stand for several
			return open(env, servers, promises)
		},
	}
}

const (
	// abandonTimeout bounds how long a caller that gave up waits for its node's removal, which goes on after that.
	abandonTimeout = 2 * time.Second
	retryEvery     = 20 * time.Millisecond
	leastTime      = time.Second // to see the queue once, however short the time-out
)

// locker is a session of one worker.
type locker struct {
	session  *session
	tree     tree
	promises lock.Promises
	steps    step.Observer
	timeout  time.Duration
	tidy     io.Closer // removes the run's empty nodes; nil if the Process does

	removals sync.WaitGroup // under way, beside the worker
	closing  chan struct{}
	close    func() error
}

func open(env lock.Env, servers []string, promises lock.Promises) (lock.Locker, error) {
	s, err := connect(servers, env.Params.Duration(ttlParam), connectTimeout, bufferSize, env.Traffic)
	if err != nil {
		return nil, err
	}
	l := &locker{
		session: s, tree: newTree(env.Key), promises: promises, steps: env.Steps,
		timeout: env.Params.Duration(timeoutParam), closing: make(chan struct{}),
	}
	l.close = sync.OnceValue(l.end)
	tidy := tidier{servers: servers, root: l.tree.root}
	if env.Process == nil {
		l.tidy = tidy
		return l, nil
	}
	shared := func() (io.Closer, error) { return tidy, nil }
	if _, err := env.Process.Share("zookeeper "+l.tree.root, shared); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// Promises implements lock.Locker.
func (l *locker) Promises() lock.Promises { return l.promises }

// Close implements io.Closer. Locks that are still held are released.
func (l *locker) Close() error { return l.close() }

func (l *locker) end() error {
	close(l.closing)
	l.session.close()
	l.removals.Wait()
	if l.tidy != nil {
		return l.tidy.Close()
	}
	return nil
}

// Acquire implements lock.Locker. It goes on after lost connections and sessions for as long as its time-out allows; a
// waiter that loses its session queues again.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	deadline := time.NewTimer(l.timeout)
	defer deadline.Stop()
	bounded, cancel := context.WithTimeout(ctx, max(l.timeout, leastTime))
	defer cancel()
	w := newWaiter(l, name)
	lease, err := l.queue(bounded, w, deadline.C)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, l.giveUp(w, err))
	}
	return lease, nil
}

// queue waits until w's node is the first.
func (l *locker) queue(ctx context.Context, w *waiter, deadline <-chan time.Time) (lock.Lease, error) {
	var trouble error // with the servers
	for {
		ahead, err := w.look(ctx)
		switch {
		case err == nil && ahead == "":
			return w.lease, nil
		case err == nil:
			trouble = nil
			l.steps.At(ctx, step.Waiting)
			err = w.wait(ctx, ahead, deadline)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || errors.Is(err, lock.ErrTimeout) || !passing(err) {
			return nil, errors.Join(err, trouble)
		}
		trouble = err
		if err := pause(ctx, deadline); err != nil {
			return nil, fmt.Errorf("%w: %w", err, trouble)
		}
	}
}

// pause waits a little before something is tried again.
func pause(ctx context.Context, deadline <-chan time.Time) error {
	select {
	case <-time.After(retryEvery):
		return nil
	case <-deadline:
		return lock.ErrTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Try implements lock.Locker. It queues for a moment.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	w := newWaiter(l, name)
	ahead, err := w.look(ctx)
	if err == nil && ahead != "" {
		err = lock.ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, l.giveUp(w, err))
	}
	return w.lease, nil
}

// giveUp leaves the queue because of an error, which it returns. A node that cannot be removed soon is removed later,
// at the latest with the session.
func (l *locker) giveUp(w *waiter, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	if err := l.remove(ctx, w); err != nil && !errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("%w (and the place in line may still be there: %w)", cause, err)
	}
	return cause
}

// remove removes w's node. When ctx ends first it goes on beside the worker, until it succeeds or the Locker is closed.
func (l *locker) remove(ctx context.Context, w *waiter) error {
	done := make(chan error, 1)
	l.removals.Go(func() {
		for {
			err := w.remove()
			if err == nil || !passing(err) {
				done <- err
				return
			}
			select {
			case <-l.closing:
				done <- err
				return
			case <-time.After(retryEvery):
			}
		}
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passing reports whether an error may go away by itself: a connection or a session was lost, or somebody removed a
// node. It is then unknown whether the server did what it was asked for.
func passing(err error) bool {
	for _, lasting := range []error{
		lock.ErrLost, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrInvalidPath, zk.ErrInvalidFlags,
		zk.ErrBadArguments, zk.ErrAPIError, zk.ErrUnknown,
	} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return true
}

// lease is a waiter whose node is the first.
type lease struct {
	waiter *waiter
	ctx    context.Context
	fence  int64
}

// Context implements lock.Lease: it ends with the session.
func (l *lease) Context() context.Context { return l.ctx }

// Fence implements lock.Fencer: the czxid of the node.
func (l *lease) Fence() int64 { return l.fence }

// Release implements lock.Lease. It does not wait for a connection that is lost: the node is then removed beside the
// worker, or with the session.
func (l *lease) Release(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	err := l.waiter.locker.remove(ctx, l.waiter)
	if cause := context.Cause(l.ctx); errors.Is(cause, lock.ErrLost) {
		err = lock.ErrLost // even if the session lives on: its holder has seen its context end
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", l.waiter.dir, err)
	}
	return nil
}

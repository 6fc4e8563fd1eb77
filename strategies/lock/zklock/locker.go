package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

const (
	// abandonTimeout bounds how long a caller waits for a node to be removed that it gave up. The removal goes on after.
	abandonTimeout = 2 * time.Second
	retryEvery     = 20 * time.Millisecond
	leastTime      = time.Second // for a single look, however short the time-out
)

// locker is a session of one worker.
type locker struct {
	session  *session
	tree     tree
	promises lock.Promises
	steps    step.Observer
	timeout  time.Duration
	tidy     io.Closer // removes what the run leaves; nil if that is another's task

	removals sync.WaitGroup // under way, beside the worker
	closing  chan struct{}
	close    func() error
}

func open(env lock.Env, servers []string, promises lock.Promises) (lock.Locker, error) {
	s, err := connect(servers, env.Params.Duration(ttlParam), connectTimeout)
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
	} else if _, err := env.Process.Share("zookeeper "+l.tree.root, func() (io.Closer, error) { return tidy, nil }); err != nil {
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

// Acquire implements lock.Locker. It outlives lost connections and sessions as long as its time-out allows; with its
// session it loses its place in line.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	deadline := time.NewTimer(l.timeout)
	defer deadline.Stop()
	bounded, cancel := context.WithTimeout(ctx, max(l.timeout, leastTime))
	defer cancel()
	p := newPlace(l, name)
	lease, err := l.queue(bounded, p, deadline.C)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, l.giveUp(p, err))
	}
	return lease, nil
}

// queue stays in line until it is p's turn.
func (l *locker) queue(ctx context.Context, p *place, deadline <-chan time.Time) (lock.Lease, error) {
	var trouble error // with the servers
	for {
		ahead, err := p.look(ctx)
		switch {
		case err == nil && ahead == "":
			return p.lease, nil
		case err == nil:
			trouble = nil
			l.steps.At(ctx, step.Waiting)
			err = p.wait(ctx, ahead, deadline)
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

// Try implements lock.Locker. It takes a place in line for a moment.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	p := newPlace(l, name)
	ahead, err := p.look(ctx)
	if err == nil && ahead != "" {
		err = lock.ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, l.giveUp(p, err))
	}
	return p.lease, nil
}

// giveUp leaves the line for a cause. What cannot be removed soon is removed later, at the latest with the session.
func (l *locker) giveUp(p *place, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	if err := l.remove(ctx, p); err != nil && !errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("%w (and the place in line may still be there: %w)", cause, err)
	}
	return cause
}

// remove removes p's node. When ctx ends first it goes on beside the worker, until it has succeeded or the Locker is
// closed.
func (l *locker) remove(ctx context.Context, p *place) error {
	done := make(chan error, 1)
	l.removals.Go(func() {
		for {
			err := p.remove()
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

// passing reports whether an error may go away by itself: a connection or a session that was lost, or a node that somebody
// removed. Whether what was asked for has been done is then not known.
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

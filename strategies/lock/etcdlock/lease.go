package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/marketsim/marketsim/strategies/lock"
)

// lease is a Mutex that is locked.
type lease struct {
	locker   *locker
	life     *life
	name     string
	key      string
	fence    int64
	released chan struct{}
}

func (l *locker) newLease(life *life, mutex *concurrency.Mutex, name string) *lease {
	owner := mutex.IsOwner() // the only place where the revision is told
	e := &lease{
		locker: l, life: life, name: name, key: mutex.Key(), fence: owner.GetCompare().GetCreateRevision(),
		released: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = e.released
	return e
}

// Context implements lock.Lease: it ends with the session.
func (e *lease) Context() context.Context { return e.life.ctx }

// Fence implements lock.Fencer: the revision in which the key was created.
func (e *lease) Fence() int64 { return e.fence }

// Release implements lock.Lease. When ctx ends first, the key is deleted beside the worker; a session that is over has
// done so itself, or will.
func (e *lease) Release(ctx context.Context) error {
	done := make(chan error, 1)
	e.locker.work.Go(func() {
		err := e.delete()
		// Not before: a new Mutex of this session has the same key, and would fall to this deletion.
		e.locker.free(e.name, e.released)
		done <- err
	})
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.life.ctx.Done():
	}
	if errors.Is(context.Cause(e.life.ctx), lock.ErrLost) {
		err = lock.ErrLost
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", e.key, err)
	}
	return nil
}

// delete deletes the key if it is the lease's, until the server has answered or the session is over.
func (e *lease) delete() error {
	mine := clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.fence)
	for asked := false; ; asked = true {
		ctx, cancel := context.WithTimeout(e.locker.closing, abandonTimeout)
		answer, err := e.locker.client.Txn(ctx).If(mine).Then(clientv3.OpDelete(e.key)).Commit()
		cancel()
		switch {
		case err == nil && !answer.Succeeded && !asked:
			return lock.ErrLost
		case err == nil:
			return nil
		}
		select {
		case <-e.life.ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

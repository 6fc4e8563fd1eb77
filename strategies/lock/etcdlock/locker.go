package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/strategies/lock"
)

const (
	connectTimeout = 5 * time.Second
	keepAlive      = 2 * time.Second // after such a silence the connection is tested
	// abandonTimeout bounds how long a caller waits for what it gave up. The clearing up goes on after.
	abandonTimeout = 2 * time.Second
	retryEvery     = 20 * time.Millisecond
)

// locker is a client of one worker with one session.
type locker struct {
	client       *clientv3.Client
	key          func(name string) string
	ttl, timeout time.Duration
	promises     lock.Promises

	life *life
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the lock is released: within a session etcd's Mutex is reentrant

	work    sync.WaitGroup // under way, beside the worker
	closing context.Context
	stop    context.CancelFunc
	close   func() error
}

func open(env lock.Env, promises lock.Promises) (*locker, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: env.Servers.Etcd, Logger: zap.NewNop(),
		DialTimeout: connectTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	l := &locker{
		client: client, key: env.Key, promises: promises, held: map[string]chan struct{}{},
		ttl: env.Params.Duration(ttlParam), timeout: env.Params.Duration(timeoutParam),
	}
	l.closing, l.stop = context.WithCancel(context.Background())
	l.close = sync.OnceValue(l.end)
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if l.life, err = begin(ctx, client, l.ttl); err != nil {
		l.stop()
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, strings.Join(env.Servers.Etcd, ","), errors.Join(err, client.Close()))
	}
	return l, nil
}

// Promises implements lock.Locker.
func (l *locker) Promises() lock.Promises { return l.promises }

// Close implements io.Closer. Locks that are still held are released.
func (l *locker) Close() error { return l.close() }

func (l *locker) end() error {
	l.stop()
	err := l.life.close()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, context.DeadlineExceeded) {
		err = nil // it is over, or will be soon
	}
	err = errors.Join(err, l.client.Close())
	l.work.Wait()
	return err
}

// Acquire implements lock.Locker. When its session expires meanwhile it begins another one and queues again.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var lease lock.Lease
	err := l.alone(bounded, name)
	if err == nil {
		lease, err = l.take(bounded, name, (*concurrency.Mutex).Lock)
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return lease, nil
}

// Try implements lock.Locker.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	var lease lock.Lease
	err := ctx.Err()
	if err == nil && l.holds(name) != nil {
		err = lock.ErrHeld
	}
	if err == nil {
		lease, err = l.take(ctx, name, (*concurrency.Mutex).TryLock)
	}
	if errors.Is(err, concurrency.ErrLocked) {
		err = lock.ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return lease, nil
}

// holds returns what is closed when this worker releases the lock, or nil.
func (l *locker) holds(name string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.ctx.Err() != nil {
		return nil
	}
	if released, ok := l.held[name]; ok {
		return released
	}
	return nil
}

// alone waits until this worker does not hold the lock itself.
func (l *locker) alone(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	released := l.holds(name)
	if released == nil {
		return nil
	}
	select {
	case <-released:
		return nil
	case <-l.life.ctx.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take locks a Mutex, in another session if this one is over.
func (l *locker) take(ctx context.Context, name string, how func(*concurrency.Mutex, context.Context) error) (lock.Lease, error) {
	for {
		if err := l.renewLife(ctx); err != nil {
			return nil, err
		}
		life := l.life
		mutex := concurrency.NewMutex(life.session, l.prefix(name))
		err := l.try(ctx, life, mutex, name, how)
		if err == nil && life.ctx.Err() == nil {
			return l.newLease(life, mutex, name), nil
		}
		if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, concurrency.ErrSessionExpired) {
			life.end(lock.ErrLost)
		}
		if err != nil && life.ctx.Err() == nil {
			return nil, err
		}
	}
}

// renewLife begins another session if this one is over.
func (l *locker) renewLife(ctx context.Context) error {
	if l.life.ctx.Err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	next, err := begin(ctx, l.client, l.ttl)
	if err != nil {
		return err
	}
	_ = l.life.close() // it is lost
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life, l.held = next, map[string]chan struct{}{}
	return nil
}

// prefix is where the lock's keys lie. No lock's prefix is the beginning of another's.
func (l *locker) prefix(name string) string { return url.PathEscape(l.key(name)) }

// try locks a Mutex beside the worker: when ctx ends, the Mutex clears up without a bound.
func (l *locker) try(ctx context.Context, life *life, mutex *concurrency.Mutex, name string,
	how func(*concurrency.Mutex, context.Context) error,
) error {
	done := make(chan error, 1)
	l.work.Go(func() {
		err := how(mutex, ctx)
		if err != nil && mutex.Key() != "\x00" { // it says so when it has cleared up
			err = errors.Join(err, l.clear(life, clientv3.OpDelete(mutex.Key())))
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		if err == nil { // it was taken at the last moment
			err = l.clear(life, clientv3.OpDelete(mutex.Key()))
		}
		return errors.Join(ctx.Err(), err)
	case <-time.After(abandonTimeout):
		l.abandon(life, mutex, name, done)
		return ctx.Err()
	}
}

// abandon leaves a Mutex to be cleared up beside the worker, who cannot take the lock again before that: it would have
// the same key.
func (l *locker) abandon(life *life, mutex *concurrency.Mutex, name string, done <-chan error) {
	cleared := make(chan struct{})
	l.mu.Lock()
	l.held[name] = cleared
	l.mu.Unlock()
	l.work.Go(func() {
		if err := <-done; err == nil { // it was taken after all
			_ = l.clear(life, clientv3.OpDelete(mutex.Key())) // if not, the session's end does it
		}
		l.free(name, cleared)
	})
}

// free lets this worker take a lock again.
func (l *locker) free(name string, released chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] == released {
		close(released)
		delete(l.held, name)
	}
}

// clear deletes a key until it has succeeded, or the key's session is over, which does the same.
func (l *locker) clear(life *life, del clientv3.Op) error {
	for {
		ctx, cancel := context.WithTimeout(l.closing, abandonTimeout)
		_, err := l.client.Do(ctx, del)
		cancel()
		if err == nil || life.ctx.Err() != nil {
			return nil
		}
		select {
		case <-l.closing.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

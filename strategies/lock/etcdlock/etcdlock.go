// Package etcdlock is the lock of etcd's own client library. It is apart from package lock because of what it imports.
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
	"google.golang.org/grpc"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrUnreachable is returned, wrapped, by Kind.New when no etcd server answered in time.
var ErrUnreachable = errors.New("cannot reach etcd")

var (
	ttlParam = seconds("ttl", 10*time.Second,
		"how long a dead holder keeps the lock, in whole seconds; the server may make it longer")
	timeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take")
	releaseParam = param.Choice("release", "delete only the key of this acquisition, or unlock as the library does: "+
		"by the key's name, and again at the next acquisition if there was no answer", "compare", unlock)
)

const unlock = "unlock"

// seconds is a duration in whole seconds: etcd counts no others.
func seconds(name string, def time.Duration, summary string) param.Param {
	p := param.Duration(name, def, time.Second, summary)
	normalize := p.Normalize
	p.Normalize = func(value string) (string, error) {
		value, err := normalize(value)
		if err != nil {
			return "", err
		}
		if d, err := time.ParseDuration(value); err != nil || d%time.Second != 0 {
			return "", fmt.Errorf("%s is not in whole seconds", value)
		}
		return value, nil
	}
	return p
}

// Kind is the Mutex of etcd's client library. A worker has a session, an etcd lease that is kept alive in the
// background, and puts a key of its own, bound to it, under the lock's prefix: the key that was created first holds
// the lock, and everybody else watches the one created before its own. To release is to delete the key. The fence is
// the revision in which the key was created.
//
// It promises that only its holder releases it; that waiters get it in the order they came; that a crashed holder
// holds it no longer than its session's TTL; that clients' clocks do not matter; that with a cluster of three or more
// it works on while a minority is down. A lease's context ends when the session does, or when three quarters of its TTL
// have passed since the last request was sent that kept it alive and was answered: before the server can give the lock
// to someone else.
//
// What breaks it: a holder that is paused for longer than the TTL between a check of its context and its write. Only a
// store that checks the fence can stop that write. A key that someone deletes by hand is missed at the release only.
// Each acquisition and each release is written to the disks of a majority of the servers.
//
// With release=unlock a lock is released by the library's Unlock, which deletes the key by its name. All acquisitions
// of a session have the same key. Where the reply to an Unlock was lost and it is sent again after the session has
// taken the lock again, it deletes the newer key, and the holder does not notice (etcd-io/etcd#22082).
//
// Source: etcd's client library, package concurrency.
func Kind() lock.Kind {
	promises := func(v param.Values) lock.Promises {
		return lock.Promises{
			Exclusive: true, OwnerRelease: v.Text(releaseParam) != unlock, SurvivesCrash: true, ClockIndependent: true,
			Fair: true, Fenced: true, SurvivesNodeLoss: true, NoticesLoss: true,
		}
	}
	return lock.Kind{
		Name:     "etcd",
		Summary:  "the Mutex of etcd's client library: a key a waiter, bound to a session; the oldest holds the lock",
		Source:   "go.etcd.io/etcd/client/v3/concurrency",
		Wakes:    "watch",
		Promises: promises(nil), PromisesWith: promises,
		Params:   []param.Param{ttlParam, timeoutParam, releaseParam},
		Variants: []string{":" + releaseParam.Name + "=" + unlock}, // as the library has it
		Keys:     func(string) []string { return nil },             // nothing in Redis
		Needs:    lock.NeedsEtcd,
		OwnClock: true,
		New: func(env lock.Env) (lock.Locker, error) {
			if len(env.Servers.Etcd) == 0 {
				return nil, fmt.Errorf("%w: etcd needs the address of an etcd server", lock.ErrServers)
			}
			promises := promises(env.Params)
			// As far as is known: an address may stand for several servers.
			promises.SurvivesNodeLoss = len(env.Servers.Etcd) >= 3
			return open(env, promises)
		},
	}
}

const (
	connectTimeout = 20 * time.Second // a busy machine is slow, and private servers have just started
	sessionTimeout = 5 * time.Second  // to begin another session
	// After so long a silence the client tests the connection, and closes it if there is no answer. gRPC raises any
	// shorter silence to this one.
	keepAlive, keepAliveAnswer = 10 * time.Second, 2 * time.Second
	// abandonTimeout bounds how long a caller that gave up waits for its key to be deleted, which goes on after that.
	abandonTimeout = 2 * time.Second
	retryEvery     = 20 * time.Millisecond
)

// locker is a client of one worker with one session.
type locker struct {
	client       *clientv3.Client
	key          func(name string) string
	ttl, timeout time.Duration
	promises     lock.Promises

	session  *session
	mu       sync.Mutex
	sessions map[clientv3.LeaseID]*session // that the server may still have
	held     map[string]chan struct{}      // closed when the lock is released: within a session etcd's Mutex is reentrant

	unlocks    bool                 // see release=unlock
	unanswered []*concurrency.Mutex // those of which no answer said that they are unlocked

	work    sync.WaitGroup // calls under way beside the worker
	closing context.Context
	stop    context.CancelFunc
	close   func() error
}

func open(env lock.Env, promises lock.Promises) (*locker, error) {
	l := &locker{
		key: env.Key, promises: promises, held: map[string]chan struct{}{}, sessions: map[clientv3.LeaseID]*session{},
		ttl: env.Params.Duration(ttlParam), timeout: env.Params.Duration(timeoutParam),
		unlocks: env.Params.Text(releaseParam) == unlock,
	}
	var err error
	l.client, err = clientv3.New(clientv3.Config{
		Endpoints: env.Servers.Etcd, Logger: zap.NewNop(),
		DialTimeout: connectTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveAnswer,
		DialOptions: []grpc.DialOption{
			grpc.WithChainStreamInterceptor(l.timeKeepAlives), grpc.WithStatsHandler(counter(env.Traffic)),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	l.closing, l.stop = context.WithCancel(context.Background())
	l.close = sync.OnceValue(l.end)
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if l.session, err = l.begin(ctx); err != nil {
		l.stop()
		err = errors.Join(err, l.client.Close())
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, strings.Join(env.Servers.Etcd, ","), err)
	}
	return l, nil
}

// Promises implements lock.Locker.
func (l *locker) Promises() lock.Promises { return l.promises }

// Close implements io.Closer. Locks that are still held are released.
func (l *locker) Close() error { return l.close() }

func (l *locker) end() error {
	l.stop()
	err := l.leave(l.session)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, context.DeadlineExceeded) {
		err = nil // the session is over, or will be soon
	}
	err = errors.Join(err, l.client.Close())
	l.work.Wait()
	return err
}

// Acquire implements lock.Locker. When its session expires meanwhile, it begins another one and queues again.
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
	if l.session.ctx.Err() != nil {
		return nil
	}
	return l.held[name]
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
	case <-l.session.ctx.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take locks a Mutex, in another session if this one is over.
func (l *locker) take(ctx context.Context, name string, how func(*concurrency.Mutex, context.Context) error,
) (lock.Lease, error) {
	for {
		if err := l.renewSession(ctx); err != nil {
			return nil, err
		}
		s := l.session
		mutex := concurrency.NewMutex(s.Session, l.prefix(name))
		err := l.try(ctx, s, mutex, name, how)
		if err == nil && s.ctx.Err() == nil {
			lease := l.newLease(s, mutex, name)
			if !l.unlocks {
				return lease, nil
			}
			l.unlockAgain(ctx)
			return &unlocked{lease, mutex}, nil
		}
		if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, concurrency.ErrSessionExpired) {
			s.end(lock.ErrLost)
		}
		if err != nil && s.ctx.Err() == nil {
			return nil, err
		}
	}
}

// renewSession begins another session if this one is over.
func (l *locker) renewSession(ctx context.Context) error {
	if l.session.ctx.Err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	next, err := l.begin(ctx)
	if err != nil {
		return err
	}
	_ = l.leave(l.session) // it is lost
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.held = next, map[string]chan struct{}{}
	return nil
}

// prefix is where the lock's keys lie. No lock's prefix is the beginning of another's.
func (l *locker) prefix(name string) string { return url.PathEscape(l.key(name)) }

// try locks a Mutex beside the worker: when ctx ends, the Mutex deletes its key without a bound on the time.
func (l *locker) try(ctx context.Context, s *session, mutex *concurrency.Mutex, name string,
	how func(*concurrency.Mutex, context.Context) error,
) error {
	done := make(chan error, 1)
	l.work.Go(func() {
		err := how(mutex, ctx)
		if err != nil && mutex.Key() != "\x00" { // which it is when the Mutex has deleted it
			err = errors.Join(err, l.clear(s, mutex.Key()))
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
			err = l.clear(s, mutex.Key())
		}
		return errors.Join(ctx.Err(), err)
	case <-time.After(abandonTimeout):
		l.abandon(s, mutex, name, done)
		return ctx.Err()
	}
}

// abandon leaves the key of a Mutex to be deleted beside the worker, who cannot take the lock again before that: the
// new Mutex would have the same key.
func (l *locker) abandon(s *session, mutex *concurrency.Mutex, name string, done <-chan error) {
	cleared := make(chan struct{})
	l.mu.Lock()
	l.held[name] = cleared
	l.mu.Unlock()
	l.work.Go(func() {
		if err := <-done; err == nil { // it was taken after all
			_ = l.clear(s, mutex.Key()) // if it fails, the session's end does it
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

// clear deletes a key. The end of the session does the same.
func (l *locker) clear(s *session, key string) error {
	err := l.repeat(s, func(ctx context.Context) error {
		_, err := l.client.Delete(ctx, key)
		return err
	})
	if s.ctx.Err() != nil {
		return nil
	}
	return err
}

// repeat makes a call until it succeeds or reports ErrLost, the session is over, or the Locker is closed.
func (l *locker) repeat(s *session, call func(context.Context) error) error {
	for {
		ctx, cancel := context.WithTimeout(l.closing, abandonTimeout)
		err := call(ctx)
		cancel()
		if err == nil || errors.Is(err, lock.ErrLost) {
			return err
		}
		select {
		case <-s.ctx.Done():
			return err
		case <-l.closing.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

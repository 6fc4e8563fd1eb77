package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/param"
)

// A grant is one acquisition of a lock. After take has returned true it is the lease.
type grant interface {
	Lease
	// take makes one attempt: true means held, false means that someone else holds the lock. It may be called again
	// after false. Before it returns an error it gives back what it may have taken (see Abandon), unless the key does
	// not say whose it is, or the published code does not do it.
	take(ctx context.Context) (bool, error)
}

// polling completes the kind of a lock that waits by trying again. grants makes the grant of one acquisition.
func polling(k Kind, grants func(redisLease) grant) Kind {
	k = Polls(k)
	k.New = func(env Env) (Locker, error) { return newPolled(env, k.promises(env.Params), grants), nil }
	return k
}

// promises is what a lock promises with these parameters.
func (k Kind) promises(v param.Values) Promises {
	if k.PromisesWith == nil {
		return k.Promises
	}
	return k.PromisesWith(v)
}

// polled is the Locker of every lock that waits by trying again.
type polled struct {
	locker
	retries *Retries
	grants  func(redisLease) grant
}

func newPolled(env Env, promises Promises, grants func(redisLease) grant) *polled {
	return &polled{locker: newLocker(env, promises), retries: NewRetries(env), grants: grants}
}

// Spend tells the Retries.
func (l *polled) Spend(d time.Duration) { l.retries.Spend(d) }

// Polls implements Poller.
func (l *polled) Polls() int64 { return l.retries.Polls() }

// Acquire implements Locker.
func (l *polled) Acquire(ctx context.Context, name string) (Lease, error) {
	return l.acquire(ctx, name, l.grants(l.lease(name)))
}

func (l *polled) acquire(ctx context.Context, name string, g grant) (Lease, error) {
	if err := l.until(ctx, g.take); err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return g, nil
}

// Try implements Locker.
func (l *polled) Try(ctx context.Context, name string) (Lease, error) {
	g := l.grants(l.lease(name))
	l.asked = time.Now()
	taken, err := g.take(ctx)
	if err == nil && !taken {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, backend.OfContext(ctx, err))
	}
	return g, nil
}

// until calls attempt until it returns true or an error, at least once. It returns ErrTimeout when its Retries give up,
// and ctx's error when ctx ended first.
func (l *polled) until(ctx context.Context, attempt func(context.Context) (bool, error)) error {
	for l.retries.Begin(); ; {
		l.asked = time.Now()
		if taken, err := attempt(ctx); taken || err != nil {
			return backend.OfContext(ctx, err)
		}
		wait, err := l.retries.Next(ctx)
		if err != nil {
			return err
		}
		if err := l.sleep(ctx, wait, nil); err != nil {
			return err
		}
	}
}

// mode is how a read-write lock is taken; it is an argument of the scripts.
type mode string

const (
	shared    mode = "shared"
	exclusive mode = "exclusive"
)

// pollingShared is polling for a read-write lock. grants makes the grant of a reader or a writer.
func pollingShared(k Kind, grants func(redisLease, mode) grant) Kind {
	k = Polls(k)
	k.Shares = true
	k.New = func(env Env) (Locker, error) {
		writer := func(l redisLease) grant { return grants(l, exclusive) }
		return &rwPolled{polled: newPolled(env, k.promises(env.Params), writer), grants: grants}, nil
	}
	return k
}

// rwPolled is the Locker of a read-write lock. Acquire and Try take it for a writer.
type rwPolled struct {
	*polled
	grants func(redisLease, mode) grant
}

// AcquireShared implements SharedLocker.
func (l *rwPolled) AcquireShared(ctx context.Context, name string) (Lease, error) {
	return l.acquire(ctx, name, l.grants(l.lease(name), shared))
}

// locker is what the Locker of one worker has, whether it polls or is notified.
type locker struct {
	env        Env
	made       Promises
	background *Background
	timeout    time.Duration
	polls      int64
	asked      time.Time
	timer      *time.Timer
}

func newLocker(env Env, promises Promises) locker {
	return locker{
		env: env, made: promises, background: NewBackground(env), timeout: env.Params.Duration(TimeoutParam),
	}
}

// Promises implements Locker.
func (l *locker) Promises() Promises { return l.made }

// Polls implements Poller.
func (l *locker) Polls() int64 { return l.polls }

// Asked implements Asker.
func (l *locker) Asked() time.Time { return l.asked }

// Close implements io.Closer.
func (l *locker) Close() error { return l.background.Close() }

// sleep returns when d has passed or the worker is woken. It returns ctx's error when ctx ended first. woken may be
// nil.
func (l *locker) sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	if l.timer == nil {
		l.timer = time.NewTimer(d)
	} else {
		l.timer.Reset(d)
	}
	defer l.timer.Stop()
	select {
	case <-l.timer.C:
		return nil
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lease returns the parts that the leases of locks in Redis have in common.
func (l *locker) lease(name string) redisLease {
	return redisLease{env: l.env, rdb: l.env.Redis, background: l.background, key: l.env.Key(name), token: rand.Text()}
}

// redisLease is what the leases of locks in Redis have in common. Such a lease does not notice that it is lost.
type redisLease struct {
	env        Env
	rdb        *redis.Client // the worker's own connection
	background *Background
	key        string
	token      string // 128 random bits or more: no two holders have the same
}

// Context implements Lease.
func (redisLease) Context() context.Context { return context.Background() }

func (l *redisLease) ttl() time.Duration { return l.env.Params.Duration(TTLParam) }

// releases returns what Release returns, given how many keys or entries the release found to be its own. ErrLost stays
// recognizable.
func (l *redisLease) releases(found int64, err error) error {
	if err = lost(found, err); err != nil {
		return fmt.Errorf("release %s: %w", l.key, err)
	}
	return nil
}

// lost is ErrLost if a release or renewal found nothing of its own.
func lost(found int64, err error) error {
	if err == nil && found == 0 {
		return ErrLost
	}
	return err
}

// wholeSeconds reports whether a TTL can be given in seconds, the unit that articles and books use. Any other TTL is
// given in milliseconds, so that tests can be short.
func wholeSeconds(ttl time.Duration) bool { return ttl%time.Second == 0 }

// abandonTimeout bounds the attempt to give back a lock that may have been taken.
const abandonTimeout = 2 * time.Second

// Abandon is for an acquisition that failed with cause and may have taken the lock nevertheless, because only the reply
// was lost. It calls release under a context of its own, for two seconds at most, and returns the cause. After an error
// that the server answered it does not call release: the server did not give the lock away.
func Abandon(ctx context.Context, cause error, release func(context.Context) error) error {
	var refused redis.Error
	if errors.As(cause, &refused) {
		return cause
	}
	return GiveBack(ctx, cause, release)
}

// GiveBack is Abandon for a lock that is certainly held, whatever the server answered to a later command of taking it.
func GiveBack(ctx context.Context, cause error, release func(context.Context) error) error {
	cause = backend.OfContext(ctx, cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w (and the lock may still be held: %w)", cause, err)
	}
	return cause
}

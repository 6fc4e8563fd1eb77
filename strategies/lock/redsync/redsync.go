// Package redsync puts the library github.com/go-redsync/redsync under the market, over the market's one Redis.
package redsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Kind is the lock of github.com/go-redsync/redsync with one server: SET NX with a random token and an expiry,
// released by a compare-and-delete script that also runs after every attempt that failed. It promises that only its
// holder releases it and that a crashed holder does not hold it for good. Clients' clocks may be wrong: the library
// measures only how much time has passed, for which Go uses a clock that cannot be set, and it sends the server
// durations, not times.
//
// What breaks it: a holder that is paused for longer than the TTL, as with set-px. The library waits 5 % of the TTL for
// the reply to a command and then tries again, so it takes a server that does not answer for a lock that is held. By
// default the library gives up after 32 tries, 50 to 250 ms apart at random; here timeout says when, and
// tries=32:poll=150ms:jitter=0.67 waits as the library does.
//
// Source: github.com/go-redsync/redsync v4.18.0.
func Kind() lock.Kind {
	return lock.Polls(lock.Kind{
		Name:     "redsync",
		Summary:  "library: SET NX with a random token and an expiry; each failed attempt is released too",
		Source:   "github.com/go-redsync/redsync",
		OwnClock: true,
		Promises: promises,
		Params:   []param.Param{lock.TTLParam, lock.PollParam, lock.TimeoutParam},
		Renews:   true,
		New: func(env lock.Env) (lock.Locker, error) {
			pool := goredis.NewPool(env.Redis)
			return &locker{
				Retries: lock.NewRetries(env), env: env, redsync: redsync.New(pool), background: lock.NewBackground(env),
			}, nil
		},
	})
}

var promises = lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true}

type locker struct {
	*lock.Retries
	env        lock.Env
	redsync    *redsync.Redsync
	background *lock.Background
}

// Promises implements lock.Locker.
func (*locker) Promises() lock.Promises { return promises }

// Close implements io.Closer.
func (l *locker) Close() error { return l.background.Close() }

// Acquire implements lock.Locker.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.Begin()
	m := l.mutex(name, redsync.WithRetryDelayFunc(func(int) time.Duration {
		wait, err := l.Next(ctx)
		if err != nil {
			stop(err)
			return time.Hour // the library waits for whichever ends first: this or the context
		}
		return wait
	}))
	if err := m.LockContext(bounded); err != nil {
		if bounded.Err() != nil {
			err = context.Cause(bounded) // the library reports "failed" for either
		}
		return nil, fmt.Errorf("acquire lock %s: %w", name, m.abandon(ctx, err))
	}
	return m, nil
}

// Try implements lock.Locker.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	m := l.mutex(name)
	err := m.TryLockContext(ctx)
	if err == nil {
		return m, nil
	}
	if taken(err) {
		err = lock.ErrHeld
	} else {
		err = m.abandon(ctx, err)
	}
	return nil, fmt.Errorf("try lock %s: %w", name, err)
}

// mutex is a mutex under a token of ours, so that it can be given back if a reply is lost.
func (l *locker) mutex(name string, options ...redsync.Option) *lease {
	token := rand.Text()
	options = append(options,
		redsync.WithExpiry(l.env.Params.Duration(lock.TTLParam)),
		redsync.WithTries(math.MaxInt),
		redsync.WithGenValueFunc(func() (string, error) { return token, nil }),
		redsync.WithValue(token))
	return &lease{Mutex: l.redsync.NewMutex(l.env.Key(name), options...), locker: l}
}

type lease struct {
	*redsync.Mutex
	locker *locker
}

// abandon gives the lock back after a failure: the library does so under the context that may have ended.
func (l *lease) abandon(ctx context.Context, cause error) error {
	return lock.Abandon(ctx, cause, l.Release)
}

// Context implements lock.Lease. The library does not notice a loss.
func (*lease) Context() context.Context { return context.Background() }

// Release implements lock.Lease.
func (l *lease) Release(ctx context.Context) error {
	if _, err := l.UnlockContext(ctx); err != nil {
		return fmt.Errorf("release %s: %w", l.Name(), lost(err))
	}
	return nil
}

// Renew implements lock.Renewer, on a connection of its own.
func (l *lease) Renew(ctx context.Context) error {
	rdb, err := l.locker.background.Connection(ctx)
	if err != nil {
		return err
	}
	beside := redsync.New(goredis.NewPool(rdb)).NewMutex(l.Name(),
		redsync.WithValue(l.Value()), redsync.WithExpiry(l.locker.env.Params.Duration(lock.TTLParam)))
	_, err = beside.ExtendContext(ctx)
	return lost(err)
}

// lost is ErrLost if the library's error says that the lock is gone or another's.
func lost(err error) error {
	if errors.Is(err, redsync.ErrLockAlreadyExpired) || taken(err) {
		return fmt.Errorf("%w: %w", lock.ErrLost, err)
	}
	return err
}

// taken reports whether the library's error says that someone else has the lock.
func taken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

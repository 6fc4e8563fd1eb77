// Package redislock puts the library github.com/bsm/redislock under the market.
package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Kind is the lock of github.com/bsm/redislock: a script that sets a random token with MSETNX and then PEXPIRE,
// released by a compare-and-delete script. It promises that only its holder releases it and that a crashed holder does
// not hold it for good. Clients' clocks may be wrong: the library measures only how much time has passed, for which Go
// uses a clock that cannot be set, and it sends the server durations, not times.
//
// What breaks it: a holder that is paused for longer than the TTL, as with set-px. By default the library gives up
// waiting after the TTL; here timeout and tries say when.
//
// Source: github.com/bsm/redislock v0.10.0.
func Kind() lock.Kind {
	return lock.Polls(lock.Kind{
		Name:     "redislock",
		Summary:  "library: a script sets a random token and its expiry; released by a compare-and-delete script",
		Source:   "github.com/bsm/redislock",
		OwnClock: true,
		Promises: promises,
		Params:   []param.Param{lock.TTLParam, lock.PollParam, lock.TimeoutParam},
		Renews:   true,
		New: func(env lock.Env) (lock.Locker, error) {
			return &locker{
				Retries: lock.NewRetries(env), env: env, client: redislock.New(env.Redis), background: lock.NewBackground(env),
			}, nil
		},
	})
}

var promises = lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true}

type locker struct {
	*lock.Retries
	env        lock.Env
	client     *redislock.Client
	background *lock.Background
}

// Promises implements lock.Locker.
func (*locker) Promises() lock.Promises { return promises }

// Close implements io.Closer.
func (l *locker) Close() error { return l.background.Close() }

// Acquire implements lock.Locker.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	// The library gives a context without a deadline one of its own, the TTL. This deadline never comes first.
	bounded, cancel := context.WithTimeout(ctx, l.env.Params.Duration(lock.TimeoutParam)+time.Hour)
	defer cancel()
	l.Begin()
	patience := &patience{ctx: ctx, retries: l.Retries}
	lease, err := l.obtain(bounded, name, patience)
	switch {
	case errors.Is(err, redislock.ErrNotObtained) && ctx.Err() == nil:
		err = patience.gaveUp
	case errors.Is(err, redislock.ErrNotObtained):
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return lease, nil
}

// Try implements lock.Locker.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	lease, err := l.obtain(ctx, name, redislock.NoRetry())
	if errors.Is(err, redislock.ErrNotObtained) {
		err = lock.ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return lease, nil
}

// obtain takes the lock under a token of ours, so that it can be given back if the reply is lost.
func (l *locker) obtain(ctx context.Context, name string, retry redislock.RetryStrategy) (lock.Lease, error) {
	key, ttl := l.env.Key(name), l.env.Params.Duration(lock.TTLParam)
	token := rand.Text()
	held, err := l.client.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: retry, Token: token})
	switch {
	case err == nil:
		return &lease{locker: l, lock: held, ttl: ttl}, nil
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, err
	}
	return nil, lock.Abandon(ctx, err, func(ctx context.Context) error {
		// The library lets the holder of a token obtain the lock again.
		held, err := l.client.Obtain(ctx, key, ttl, &redislock.Options{Token: token})
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil
		}
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

// patience is the library's retry strategy: as the parameters say, until the lock gives up.
type patience struct {
	ctx     context.Context
	retries *lock.Retries
	gaveUp  error
}

// NextBackoff implements redislock.RetryStrategy. 0 ends the acquisition.
func (p *patience) NextBackoff() (wait time.Duration) {
	wait, p.gaveUp = p.retries.Next(p.ctx)
	return wait
}

type lease struct {
	locker *locker
	lock   *redislock.Lock
	ttl    time.Duration
}

// Context implements lock.Lease. The library does not notice a loss.
func (*lease) Context() context.Context { return context.Background() }

// Release implements lock.Lease.
func (l *lease) Release(ctx context.Context) error {
	err := l.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		err = lock.ErrLost
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", l.lock.Key(), err)
	}
	return nil
}

// Renew implements lock.Renewer, on a connection of its own.
func (l *lease) Renew(ctx context.Context) error {
	rdb, err := l.locker.background.Connection(ctx)
	if err != nil {
		return err
	}
	beside := *l.lock
	beside.Client = redislock.New(rdb)
	err = beside.Refresh(ctx, l.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return lock.ErrLost
	}
	return err
}

package main

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

// An obtainedLock is one of redislock, with go-redis as it is by default.
type obtainedLock struct {
	adapter.Settings
	locker *redislock.Client
	lock   *redislock.Lock // of the last acquisition
}

func newRedislock(s adapter.Settings) (adapter.Lock, error) {
	server := redis.NewClient(&redis.Options{Addr: s.Address})
	return &obtainedLock{Settings: s, locker: redislock.New(server)}, nil
}

func (l *obtainedLock) Acquire(ctx context.Context, name string) error {
	ctx, stop := context.WithTimeout(ctx, adapter.WaitLeases*l.Lease) // without one it waits for one lease
	defer stop()
	lock, err := l.locker.Obtain(ctx, l.Prefix+name, l.Lease, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(l.Retry),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return adapter.ErrTimeout
	}
	l.lock = lock
	return err
}

func (l *obtainedLock) Release(ctx context.Context) (said string, err error) {
	err = l.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return "lost", nil
	}
	return "released", err
}

package main

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// An obtainedLock is one of redislock, with go-redis as it is by default.
type obtainedLock struct {
	settings
	locker *redislock.Client
	lock   *redislock.Lock // of the last acquisition
}

func newRedislock(s settings) (library, error) {
	server := redis.NewClient(&redis.Options{Addr: s.address})
	return &obtainedLock{settings: s, locker: redislock.New(server)}, nil
}

func (l *obtainedLock) acquire(ctx context.Context, name string) error {
	ctx, stop := context.WithTimeout(ctx, waitLeases*l.lease) // without one it waits for one lease
	defer stop()
	lock, err := l.locker.Obtain(ctx, l.prefix+name, l.lease, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(l.retry),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return errTimeout
	}
	l.lock = lock
	return err
}

func (l *obtainedLock) release(ctx context.Context) (said string, err error) {
	err = l.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return "lost", nil
	}
	return "released", err
}

package main

import (
	"context"
	"time"

	"github.com/zeromicro/go-zero/core/stores/redis"
)

// A goZeroLock is a RedisLock of go-zero. Its leases are whole seconds and half a second more.
type goZeroLock struct {
	settings
	store   *redis.Redis
	seconds int // 0: SetExpire is not called
	lock    *redis.RedisLock
}

func newGoZero(s settings) (library, error) { return openGoZero(s, wholeSeconds(s.lease)) }

// newGoZeroWithoutExpiry does not call SetExpire: the lease is half a second.
func newGoZeroWithoutExpiry(s settings) (library, error) { return openGoZero(s, 0) }

func openGoZero(s settings, seconds int) (library, error) {
	store, err := redis.NewRedis(redis.RedisConf{
		Host:        s.address,
		Type:        redis.NodeType,
		PingTimeout: 10 * time.Second, // a second by default, too short for a busy machine
	})
	return &goZeroLock{settings: s, store: store, seconds: seconds}, err
}

func (l *goZeroLock) acquire(ctx context.Context, name string) error {
	l.lock = redis.NewRedisLock(l.store, l.prefix+name)
	if l.seconds > 0 {
		l.lock.SetExpire(l.seconds)
	}
	return poll(ctx, l.settings, func() (bool, error) { return l.lock.AcquireCtx(ctx) })
}

func (l *goZeroLock) release(ctx context.Context) (said string, err error) {
	released, err := l.lock.ReleaseCtx(ctx)
	if !released {
		return "lost", err
	}
	return "released", nil
}

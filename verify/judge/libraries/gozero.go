package main

import (
	"context"
	"time"

	"github.com/zeromicro/go-zero/core/stores/redis"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

// A goZeroLock is a RedisLock of go-zero. Its leases are whole seconds and half a second more.
type goZeroLock struct {
	adapter.Settings
	store   *redis.Redis
	seconds int // 0: SetExpire is not called
	lock    *redis.RedisLock
}

func newGoZero(s adapter.Settings) (adapter.Lock, error) { return openGoZero(s, s.WholeSeconds()) }

// newGoZeroWithoutExpiry does not call SetExpire: the lease is half a second.
func newGoZeroWithoutExpiry(s adapter.Settings) (adapter.Lock, error) { return openGoZero(s, 0) }

func openGoZero(s adapter.Settings, seconds int) (adapter.Lock, error) {
	store, err := redis.NewRedis(redis.RedisConf{
		Host:        s.Address,
		Type:        redis.NodeType,
		PingTimeout: 10 * time.Second, // a second by default, too short for a busy machine
	})
	return &goZeroLock{Settings: s, store: store, seconds: seconds}, err
}

func (l *goZeroLock) Acquire(ctx context.Context, name string) error {
	l.lock = redis.NewRedisLock(l.store, l.Prefix+name)
	if l.seconds > 0 {
		l.lock.SetExpire(l.seconds)
	}
	return l.Poll(ctx, func() (bool, error) { return l.lock.AcquireCtx(ctx) })
}

func (l *goZeroLock) Release(ctx context.Context) (said string, err error) {
	released, err := l.lock.ReleaseCtx(ctx)
	if !released {
		return "lost", err
	}
	return "released", nil
}

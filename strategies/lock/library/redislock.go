package library

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
)

// Redislock is the lock of github.com/bsm/redislock: a script sets the token with MSETNX and then PEXPIRE. By default
// the library waits for as long as the TTL; here timeout and tries say how long.
//
// What breaks it: what the package comment says. And when the reply is lost to the script that takes the lock, the
// library returns an error and leaves the lock to its TTL (lost-acquire); lost-reply=released gives it back.
//
// Source: github.com/bsm/redislock v0.10.0.
func Redislock() lock.Kind {
	return lock.OfModule(lock.Kind{
		Name:     "redislock",
		Summary:  "library: a script sets a random token and its expiry; released by a compare-and-delete script",
		Source:   "github.com/bsm/redislock",
		Promises: promises,
		Params:   append(slices.Clone(params), lock.LostReplyParam),
		Variants: []string{":lost-reply=released"},
	}, false, func(env lock.Env, key, token string) lock.Mutex {
		return &redislockMutex{redislock.New(env.Redis), key, token, env.Params.Duration(lock.TTLParam), nil}
	})
}

type redislockMutex struct {
	client     *redislock.Client
	key, token string
	ttl        time.Duration
	held       *redislock.Lock
}

// Try implements lock.Mutex.
func (m *redislockMutex) Try(ctx context.Context) (err error) {
	// The library gives a context without a deadline one of its own, the TTL. This deadline never comes first.
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	m.held, err = m.client.Obtain(ctx, m.key, m.ttl, &redislock.Options{Token: m.token})
	if errors.Is(err, redislock.ErrNotObtained) {
		return lock.ErrHeld
	}
	return err
}

// Unlock implements lock.Mutex.
func (m *redislockMutex) Unlock(ctx context.Context) error {
	if m.held == nil { // the reply was lost; the library lets the holder of a token obtain the lock again
		if err := m.Try(ctx); errors.Is(err, lock.ErrHeld) {
			return lock.ErrLost
		} else if err != nil {
			return err
		}
	}
	err := m.held.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return lock.ErrLost
	}
	return err
}

// Extend implements lock.Mutex.
func (m *redislockMutex) Extend(ctx context.Context, rdb *redis.Client) error {
	beside := *m.held
	beside.Client = redislock.New(rdb)
	err := beside.Refresh(ctx, m.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return lock.ErrLost
	}
	return err
}

// Package library puts the locks of other modules for Redis under the market, over
// its one server: [Redsync] and [Redislock]. They are apart from package lock
// because of what they import.
//
// Both set a random token with an expiry, and a script deletes it if it is still there.
// Clients' clocks may be wrong: the libraries measure only how much time has passed, and
// send the server durations, not times.
//
// What breaks both: a holder that is paused for longer than the TTL, as with
// set-px. They do not notice a loss.
package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var (
	promises = lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true}
	params   = []param.Param{lock.TTLParam, lock.PollParam, lock.TimeoutParam}
)

// Redsync is the lock of github.com/go-redsync/redsync with one server: SET NX sets the
// token, and the script that deletes it also runs after every attempt that failed. By
// default the library gives up after 32 tries, 50 to 250 ms apart at random; here timeout
// says when, and tries=32:poll=150ms:jitter=0.67 waits as the library does.
//
// What breaks it: what the package comment says. The library waits 5 % of the TTL for a
// reply and then tries again: it takes a silent server for a lock that is held. Source:
// github.com/go-redsync/redsync v4.18.1.
func Redsync() lock.Kind {
	return lock.OfModule(lock.Kind{
		Name:     "redsync",
		Summary:  "library: SET NX with a random token and an expiry; each failed attempt is released too",
		Source:   "github.com/go-redsync/redsync/v4",
		Promises: promises,
		Params:   params,
	}, true, func(env lock.Env, key, token string) lock.Mutex {
		ttl := redsync.WithExpiry(env.Params.Duration(lock.TTLParam))
		same := redsync.WithGenValueFunc(func() (string, error) { return token, nil })
		on := func(rdb *redis.Client) *redsync.Mutex {
			return redsync.New(goredis.NewPool(rdb)).NewMutex(key, ttl, same, redsync.WithValue(token))
		}
		m := on(env.Redis)
		return lock.Mutex{
			Try: func(ctx context.Context) error {
				err := m.TryLockContext(ctx)
				if taken(err) {
					return lock.ErrHeld
				}
				return err
			},
			Unlock: func(ctx context.Context) error { return lost(m.UnlockContext(ctx)) },
			Extend: func(ctx context.Context, rdb *redis.Client) error { return lost(on(rdb).ExtendContext(ctx)) },
		}
	})
}

// lost is the error that the library returned, wrapped as ErrLost if it says that the
// lock is another's or nobody's.
func lost(_ bool, err error) error {
	if errors.Is(err, redsync.ErrLockAlreadyExpired) || taken(err) {
		return fmt.Errorf("%w: %w", lock.ErrLost, err)
	}
	return err
}

func taken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

// Redislock is the lock of github.com/bsm/redislock: a script sets the token with
// MSETNX and then PEXPIRE. By default the library waits for as long as the TTL; here
// timeout and tries say how long.
//
// What breaks it: what the package comment says. When the reply to the script that takes
// the lock is lost, the library leaves the lock to its TTL (lost-acquire), unless
// lost-reply=released. Source: github.com/bsm/redislock v0.10.0.
func Redislock() lock.Kind {
	return lock.OfModule(lock.Kind{
		Name:     "redislock",
		Summary:  "library: a script sets a random token and its expiry; released by a compare-and-delete script",
		Source:   "github.com/bsm/redislock",
		Promises: promises,
		Params:   append(slices.Clone(params), lock.LostReplyParam),
		Variants: []string{":lost-reply=released"},
	}, false, obtained)
}

func obtained(env lock.Env, key, token string) lock.Mutex {
	client, ttl := redislock.New(env.Redis), env.Params.Duration(lock.TTLParam)
	var held *redislock.Lock
	try := func(ctx context.Context) (err error) {
		// The library gives a context without a deadline one of its own, the TTL. This
		// deadline never comes first.
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		held, err = client.Obtain(ctx, key, ttl, &redislock.Options{Token: token})
		return instead(err, redislock.ErrNotObtained, lock.ErrHeld)
	}
	return lock.Mutex{
		Try: try,
		Unlock: func(ctx context.Context) error {
			// the reply was lost; the library lets the holder of a token obtain
			// the lock again
			if held == nil {
				if err := try(ctx); err != nil {
					return instead(err, lock.ErrHeld, lock.ErrLost)
				}
			}
			return instead(held.Release(ctx), redislock.ErrLockNotHeld, lock.ErrLost)
		},
		Extend: func(ctx context.Context, rdb *redis.Client) error {
			beside := *held
			beside.Client = redislock.New(rdb)
			return instead(beside.Refresh(ctx, ttl, nil), redislock.ErrNotObtained, lock.ErrLost)
		},
	}
}

// instead is our error in place of one of the library's, and any other as it is.
func instead(err, theirs, ours error) error {
	if errors.Is(err, theirs) {
		return ours
	}
	return err
}

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

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var (
	promises = lock.Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
	}
	params = []param.Param{lock.TTLParam, lock.PollParam, lock.TimeoutParam}
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
	}, true, newRedsyncMutex)
}

// redsyncMutex is one acquisition by Redsync.
type redsyncMutex struct {
	*redsync.Mutex
	key, token string
	ttl        time.Duration
}

func newRedsyncMutex(env lock.Env, key, token string) lock.Mutex {
	m := &redsyncMutex{key: key, token: token, ttl: env.Params.Duration(lock.TTLParam)}
	m.Mutex = m.over(env.Redis)
	return m
}

// over is the library's Mutex over a connection, as if it had taken the lock.
func (m *redsyncMutex) over(rdb *redis.Client) *redsync.Mutex {
	sameToken := func() (string, error) {
		return m.token, nil
	}
	return redsync.New(goredis.NewPool(rdb)).NewMutex(m.key,
		redsync.WithExpiry(m.ttl), redsync.WithGenValueFunc(sameToken), redsync.WithValue(m.token))
}

func (m *redsyncMutex) Try(ctx context.Context) error {
	err := m.TryLockContext(ctx)
	if taken(err) {
		return lock.ErrHeld
	}
	return err
}

func (m *redsyncMutex) Unlock(ctx context.Context) error {
	_, err := m.UnlockContext(ctx)
	return lost(err)
}

func (m *redsyncMutex) Extend(ctx context.Context, rdb *redis.Client) error {
	_, err := m.over(rdb).ExtendContext(ctx)
	return lost(err)
}

// lost is an error of the library's, wrapped as ErrLost if it says that the lock is
// another's or nobody's.
func lost(err error) error {
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
		Params:   append(slices.Clone(params), locking.LostReplyParam),
		Variants: []string{":lost-reply=released"},
	}, false, newRedislockMutex)
}

// redislockMutex is one acquisition by Redislock.
type redislockMutex struct {
	client     *redislock.Client
	key, token string
	ttl        time.Duration
	held       *redislock.Lock // nil: the library has not answered that the lock was taken
}

func newRedislockMutex(env lock.Env, key, token string) lock.Mutex {
	return &redislockMutex{
		client: redislock.New(env.Redis),
		key:    key,
		token:  token,
		ttl:    env.Params.Duration(lock.TTLParam),
	}
}

// Try bounds the attempt by a deadline that never comes first: without one the library
// bounds it by the TTL.
func (m *redislockMutex) Try(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	m.held, err = m.client.Obtain(ctx, m.key, m.ttl, &redislock.Options{Token: m.token})
	return translate(err, redislock.ErrNotObtained, lock.ErrHeld)
}

// Unlock has the library obtain the lock once more where the reply was lost: it lets in
// who has the token of the holder, and only what it has obtained can be released.
func (m *redislockMutex) Unlock(ctx context.Context) error {
	if m.held == nil {
		if err := m.Try(ctx); err != nil {
			return translate(err, lock.ErrHeld, lock.ErrLost)
		}
	}
	return translate(m.held.Release(ctx), redislock.ErrLockNotHeld, lock.ErrLost)
}

func (m *redislockMutex) Extend(ctx context.Context, rdb *redis.Client) error {
	beside := *m.held
	beside.Client = redislock.New(rdb)
	return translate(beside.Refresh(ctx, m.ttl, nil), redislock.ErrNotObtained, lock.ErrLost)
}

// translate returns our error for one of the library's, and any other as it is.
func translate(err, theirs, ours error) error {
	if errors.Is(err, theirs) {
		return ours
	}
	return err
}

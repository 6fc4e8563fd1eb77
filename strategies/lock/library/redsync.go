package library

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
)

// Redsync is the lock of github.com/go-redsync/redsync with one server: SET NX sets the token, and the script that
// deletes it also runs after every attempt that failed. By default the library gives up after 32 tries, 50 to 250 ms
// apart at random; here timeout says when, and tries=32:poll=150ms:jitter=0.67 waits as the library does.
//
// What breaks it: what the package comment says. The library waits 5 % of the TTL for the reply to a command and then
// tries again, so it takes a server that does not answer for a lock that is held.
//
// Source: github.com/go-redsync/redsync v4.18.0.
func Redsync() lock.Kind {
	return lock.OfModule(lock.Kind{
		Name:     "redsync",
		Summary:  "library: SET NX with a random token and an expiry; each failed attempt is released too",
		Source:   "github.com/go-redsync/redsync",
		Promises: promises,
		Params:   params,
	}, true, func(env lock.Env, key, token string) lock.Mutex {
		ttl := redsync.WithExpiry(env.Params.Duration(lock.TTLParam))
		same := redsync.WithGenValueFunc(func() (string, error) { return token, nil })
		library := redsync.New(goredis.NewPool(env.Redis))
		return &redsyncMutex{library.NewMutex(key, ttl, same, redsync.WithValue(token)), ttl}
	})
}

type redsyncMutex struct {
	*redsync.Mutex
	ttl redsync.Option
}

// Try implements lock.Mutex.
func (m *redsyncMutex) Try(ctx context.Context) error {
	err := m.TryLockContext(ctx)
	if taken(err) {
		return lock.ErrHeld
	}
	return err
}

// Unlock implements lock.Mutex.
func (m *redsyncMutex) Unlock(ctx context.Context) error {
	_, err := m.UnlockContext(ctx)
	return lost(err)
}

// Extend implements lock.Mutex.
func (m *redsyncMutex) Extend(ctx context.Context, rdb *redis.Client) error {
	beside := redsync.New(goredis.NewPool(rdb)).NewMutex(m.Name(), redsync.WithValue(m.Value()), m.ttl)
	_, err := beside.ExtendContext(ctx)
	return lost(err)
}

// lost is ErrLost if the library's error says that the lock is another's or nobody's.
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

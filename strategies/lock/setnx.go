package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// setNX is the book's first lock: SETNX with a random token, polled; released under WATCH, GET, MULTI, DEL, EXEC,
// again when the key changed in between. It promises that only its holder releases it.
//
// What breaks it: it never expires. A holder that dies holds it for good, and everybody else times out. So does one
// that releases it while the server is out of memory, because Redis then queues nothing in a MULTI, not even a DEL.
//
// Source: Redis in Action, section 6.2.3, acquire_lock and release_lock.
func setNX() Kind {
	return Kind{
		Name:    "setnx",
		Summary: "SETNX with a random token, never expires; a dead holder holds it for good",
		Source:  "Redis in Action, section 6.2.3",
		Params:  []param.Param{pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &setNXLocker{poller: newPoller(env), rdb: env.Redis, key: env.Key}, nil
		},
	}
}

type setNXLocker struct {
	poller
	rdb *redis.Client
	key func(name string) string
}

// Promises implements Locker.
func (*setNXLocker) Promises() Promises { return Promises{OwnerRelease: true, ClockIndependent: true} }

// Acquire implements Locker.
func (l *setNXLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	lease := l.lease(name)
	if err := l.until(ctx, lease.take); err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return lease, nil
}

// Try implements Locker.
func (l *setNXLocker) Try(ctx context.Context, name string) (Lease, error) {
	lease := l.lease(name)
	taken, err := lease.take(ctx)
	if err == nil && !taken {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return lease, nil
}

func (l *setNXLocker) lease(name string) *setNXLease {
	return &setNXLease{rdb: l.rdb, key: l.key(name), token: newToken()}
}

type setNXLease struct {
	rdb        *redis.Client
	key, token string
}

// take makes one attempt. When the reply is lost it gives back what it may have taken.
func (l *setNXLease) take(ctx context.Context) (bool, error) {
	cmd := redis.NewBoolCmd(ctx, "setnx", l.key, l.token)
	if err := l.rdb.Process(ctx, cmd); err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return cmd.Val(), nil
}

// Context implements Lease: this lock cannot notice that it is lost.
func (l *setNXLease) Context() context.Context { return context.Background() }

// Release implements Lease.
func (l *setNXLease) Release(ctx context.Context) error {
	for {
		err := l.rdb.Watch(ctx, func(tx *redis.Tx) error { return l.deleteIfMine(ctx, tx) }, l.key)
		if !errors.Is(err, redis.TxFailedErr) {
			if err != nil {
				return fmt.Errorf("release %s: %w", l.key, err)
			}
			return nil
		}
	}
}

func (l *setNXLease) deleteIfMine(ctx context.Context, tx *redis.Tx) error {
	token, err := tx.Get(ctx, l.key).Result()
	if err == redis.Nil || err == nil && token != l.token {
		return ErrLost
	}
	if err != nil {
		return err
	}
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, l.key).Err() })
	return err
}

// abandonTimeout bounds the attempt to give back a lock that may have been taken.
const abandonTimeout = 2 * time.Second

// abandon is called when the reply to an acquiring command was lost: the lock may be held under our token, so it is
// released under a context of its own before the cause is returned. A server that answered with an error did not
// give the lock away.
func abandon(ctx context.Context, cause error, release func(context.Context) error) error {
	var refused redis.Error
	if errors.As(cause, &refused) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w (and the lock may still be held: %w)", cause, err)
	}
	return cause
}

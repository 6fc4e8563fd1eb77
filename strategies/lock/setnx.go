package lock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// setNX is the book's first lock: SETNX with a random token, polled; released under WATCH, GET, MULTI, DEL, EXEC,
// again when the key changed in between. It promises that only its holder releases it.
//
// What breaks it: it never expires. A holder that dies holds it for good, and everybody else times out. So does one
// that releases it while the server is out of memory, because Redis then queues nothing in a MULTI, not even a DEL.
//
// Source: Redis in Action, section 6.2.3, acquire_lock and release_lock.
func setNX() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true}
	return Kind{
		Name:     "setnx",
		Summary:  "SETNX with a random token, never expires; a dead holder holds it for good",
		Source:   "Redis in Action, section 6.2.3",
		Params:   []param.Param{pollParam, timeoutParam},
		Wakes:    "poll",
		Promises: promises,
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					return &setNXLease{rdb: env.Redis, key: env.Key(name), token: newToken(), steps: env.Steps}
				},
			}, nil
		},
	}
}

type setNXLease struct {
	unaware
	rdb        *redis.Client
	key, token string
	steps      step.Observer
}

// take makes one attempt. When the reply is lost it gives back what it may have taken.
func (l *setNXLease) take(ctx context.Context) (bool, error) {
	cmd := redis.NewBoolCmd(ctx, "setnx", l.key, l.token)
	if err := l.rdb.Process(ctx, cmd); err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return cmd.Val(), nil
}

// Release implements Lease.
func (l *setNXLease) Release(ctx context.Context) error {
	for {
		err := l.rdb.Watch(ctx, func(tx *redis.Tx) error { return l.deleteIfMine(ctx, tx) }, l.key)
		if !errors.Is(err, redis.TxFailedErr) {
			return releaseError(l.key, err)
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
	l.steps.At(ctx, step.Looked)
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, l.key).Err() })
	return err
}

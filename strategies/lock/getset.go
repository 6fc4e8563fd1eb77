package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// getSet keeps in the key the time at which the lock ends, by its holder's clock: SETNX of that time; a waiter who finds
// it past puts a time of its own there with GETSET, and holds the lock if what it replaced is what it read. A holder
// whose time is not past, by its own clock, releases by DEL. It promises that a crashed holder does not hold it for good.
//
// What breaks it:
//   - Clocks. A client whose clock is ahead finds a live lock past and takes it.
//   - Of several waiters one takes it, but the GETSET of the others has replaced its time by theirs. If that is earlier,
//     because of a clock again, the lock is taken from it before its time.
//   - A waiter that finds the time past just when the lock is released puts its time into a free lock: nobody holds it,
//     and everybody waits for that time.
//   - No owner. A holder paused between looking at its clock and DEL deletes the lock of the next one; and an
//     acquisition whose reply was lost gives nothing back, because it might be another's.
//
// Source: redis.io/commands/setnx, "Design pattern: locking with SETNX".
func getSet() Kind {
	promises := Promises{Exclusive: true, SurvivesCrash: true}
	return Kind{
		Name:     "getset",
		Summary:  "WRONG: SETNX of an end by the client's clock, taken over by GETSET; clocks and losers break it",
		Source:   "redis.io/commands/setnx",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					return &getSetLease{env: env, key: env.Key(name), ttl: env.Params.Duration(ttlParam)}
				},
			}, nil
		},
	}
}

type getSetLease struct {
	unaware
	env Env
	key string
	ttl time.Duration
	end int64 // in ms, by our clock
}

// take implements grant.
func (l *getSetLease) take(ctx context.Context) (bool, error) {
	now := l.env.now()
	l.end = now.Add(l.ttl).UnixMilli()
	free := redis.NewBoolCmd(ctx, "setnx", l.key, l.end)
	if err := l.env.Redis.Process(ctx, free); err != nil || free.Val() {
		return free.Val(), err
	}
	held, err := l.env.Redis.Get(ctx, l.key).Int64()
	if errors.Is(err, redis.Nil) || err == nil && held > now.UnixMilli() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.env.Steps.At(ctx, step.Looked)
	return l.takeOver(ctx, held)
}

// takeOver takes a lock whose end is past, unless another did first: then its end is not what it was.
func (l *getSetLease) takeOver(ctx context.Context, past int64) (bool, error) {
	cmd := redis.NewStringCmd(ctx, "getset", l.key, l.end)
	if err := l.env.Redis.Process(ctx, cmd); errors.Is(err, redis.Nil) {
		return false, nil // it was released meanwhile, and is nobody's now
	}
	replaced, err := cmd.Int64()
	return err == nil && replaced == past, err
}

// Release implements Lease.
func (l *getSetLease) Release(ctx context.Context) error {
	if l.env.now().UnixMilli() >= l.end {
		return releaseError(l.key, ErrLost)
	}
	l.env.Steps.At(ctx, step.Looked)
	return releaseError(l.key, deleteUnchecked(ctx, l.env.Redis, l.key))
}

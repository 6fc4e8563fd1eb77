package lock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// existsSet is the lock that everybody thinks of first: EXISTS, and if there is no key, SET; released by DEL. It promises
// nothing but that clocks do not matter to it.
//
// What breaks it: looking and taking are two commands, so that two who look at the same time both find it free and both
// hold it. The first of them to finish frees it for a third, because DEL does not ask whose it is. And it never expires: a
// holder that dies holds it for good.
//
// Source: what the SETNX command was made to replace; still found in tutorials and reviews.
func existsSet() Kind {
	promises := Promises{ClockIndependent: true}
	return Kind{
		Name:     "exists-set",
		Summary:  "WRONG: EXISTS, then SET, then DEL; two who look at the same time both hold it",
		Source:   "the first idea; SETNX was made to replace it",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					return &existsSetLease{rdb: env.Redis, key: env.Key(name), steps: env.Steps}
				},
			}, nil
		},
	}
}

// anybody is what a lock without an owner holds.
const anybody = "1"

type existsSetLease struct {
	unaware
	rdb   *redis.Client
	key   string
	steps step.Observer
}

// take implements grant.
func (l *existsSetLease) take(ctx context.Context) (bool, error) {
	held, err := l.rdb.Exists(ctx, l.key).Result()
	if err != nil || held > 0 {
		return false, err
	}
	l.steps.At(ctx, step.Looked)
	if err := l.rdb.Set(ctx, l.key, anybody, 0).Err(); err != nil {
		// If someone else took it meanwhile this frees theirs; if not, ours would stay for good.
		return false, abandon(ctx, err, l.Release)
	}
	return true, nil
}

// Release implements Lease.
func (l *existsSetLease) Release(ctx context.Context) error {
	return releaseError(l.key, deleteUnchecked(ctx, l.rdb, l.key))
}

// deleteUnchecked frees a lock whoever holds it. It returns ErrLost when nobody did.
func deleteUnchecked(ctx context.Context, rdb *redis.Client, key string) error {
	return lost(rdb.Del(ctx, key).Result())
}

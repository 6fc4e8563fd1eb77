package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// setExCompare is set-ex-fixed with a random token in the key (SET EX NX; PX for a TTL that is not whole seconds), which
// its holder reads and compares before it deletes: GET, compare, DEL. It promises that a crashed holder does not hold it
// for good, and seems to promise that only its holder releases it.
//
// What breaks it: comparing and deleting are two commands. The lease can expire between them, the next one takes the
// lock, and the DEL deletes that one's. set-px does both in one script, setnx under WATCH.
//
// Source: articles that stop one step before the script of redis.io/commands/set.
func setExCompare() Kind {
	promises := Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true}
	return Kind{
		Name:     "set-ex-compare",
		Summary:  "WRONG: SET EX NX with a token, released by GET, compare, DEL; it can expire in between",
		Source:   "articles that stop before the release script",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					return &setExCompareLease{
						rdb: env.Redis, key: env.Key(name), token: newToken(),
						ttl: env.Params.Duration(ttlParam), steps: env.Steps,
					}
				},
			}, nil
		},
	}
}

type setExCompareLease struct {
	unaware
	rdb        *redis.Client
	key, token string
	ttl        time.Duration
	steps      step.Observer
}

// take implements grant.
func (l *setExCompareLease) take(ctx context.Context) (bool, error) {
	taken, err := setExNX(ctx, l.rdb, l.key, l.token, l.ttl)
	if err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// Release implements Lease.
func (l *setExCompareLease) Release(ctx context.Context) error {
	token, err := l.rdb.Get(ctx, l.key).Result()
	if errors.Is(err, redis.Nil) || err == nil && token != l.token {
		err = ErrLost
	}
	if err != nil {
		return releaseError(l.key, err)
	}
	l.steps.At(ctx, step.Looked)
	return releaseError(l.key, deleteUnchecked(ctx, l.rdb, l.key))
}

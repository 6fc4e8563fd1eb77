package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// setExFixed is the short form of SET's page: SET key 1 EX NX (PX for a TTL that is not whole seconds), released by DEL.
// It promises that a crashed holder does not hold it for good.
//
// What breaks it: the key does not say whose it is. A holder whose lease expired deletes the lock of the next one when it
// releases, a third gets in beside that one, and so on down the line. For the same reason an acquisition whose reply
// was lost gives nothing back: it might be another's. The lock then stays taken until it expires.
//
// Source: redis.io/commands/set, "Patterns", before it is made "more robust".
func setExFixed() Kind {
	promises := Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true}
	return Kind{
		Name:     "set-ex-fixed",
		Summary:  "WRONG: SET key 1 EX NX, released by DEL; a late holder deletes the lock of the next",
		Source:   "redis.io/commands/set, the form without a token",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					return &setExFixedLease{rdb: env.Redis, key: env.Key(name), ttl: env.Params.Duration(ttlParam)}
				},
			}, nil
		},
	}
}

type setExFixedLease struct {
	unaware
	rdb *redis.Client
	key string
	ttl time.Duration
}

// take implements grant.
func (l *setExFixedLease) take(ctx context.Context) (bool, error) {
	return setExNX(ctx, l.rdb, l.key, anybody, l.ttl)
}

// Release implements Lease.
func (l *setExFixedLease) Release(ctx context.Context) error {
	return releaseError(l.key, deleteUnchecked(ctx, l.rdb, l.key))
}

// setExNX is SET EX NX, or SET PX NX for a TTL that is not whole seconds.
func setExNX(ctx context.Context, rdb *redis.Client, key, value string, ttl time.Duration) (bool, error) {
	unit, n := "px", ttl.Milliseconds()
	if wholeSeconds(ttl) {
		unit, n = "ex", int64(ttl/time.Second)
	}
	err := rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", key, value, unit, n, "nx"))
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

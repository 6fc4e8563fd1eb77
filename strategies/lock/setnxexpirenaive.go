package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// setNXExpireNaive is setnx with an expiry: SETNX, then EXPIRE as a second command (PEXPIRE for a TTL that is not whole
// seconds, so that tests can be short). Released as setnx is, so its flaw stands alone. It promises that only its holder
// releases it, and looks as if a crashed holder did not hold it for good.
//
// What breaks it: a holder that dies between the two commands. The key then has no TTL, nobody gives it one, and
// everybody else times out for good. setnx-expire is the book's mend; SET with NX and an expiry is Redis's.
//
// Source: articles from before Redis 2.6.12 (2013), whose SET can do both at once, and many since.
func setNXExpireNaive() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true}
	return Kind{
		Name:     "setnx-expire-naive",
		Summary:  "WRONG: SETNX, then EXPIRE; whoever dies between the two holds it for good",
		Source:   "articles from before Redis 2.6.12",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant {
					lease := newSetNXExpireLease(env, name)
					return &lease
				},
			}, nil
		},
	}
}

// setNXExpireLease is a setnx that is given an expiry once it is taken.
type setNXExpireLease struct {
	setNXLease
	ttl time.Duration
}

func newSetNXExpireLease(env Env, name string) setNXExpireLease {
	return setNXExpireLease{
		setNXLease: setNXLease{rdb: env.Redis, key: env.Key(name), token: newToken(), steps: env.Steps},
		ttl:        env.Params.Duration(ttlParam),
	}
}

// take implements grant.
func (l *setNXExpireLease) take(ctx context.Context) (bool, error) {
	if taken, err := l.setNXLease.take(ctx); !taken {
		return false, err
	}
	l.steps.At(ctx, step.Half)
	if err := l.expire(ctx); err != nil {
		return false, giveBack(ctx, err, l.Release)
	}
	return true, nil
}

// expire gives the lock its TTL, whoever holds it, in the unit that people write.
func (l *setNXExpireLease) expire(ctx context.Context) error {
	cmd := redis.NewBoolCmd(ctx, "pexpire", l.key, l.ttl.Milliseconds())
	if wholeSeconds(l.ttl) {
		cmd = redis.NewBoolCmd(ctx, "expire", l.key, int64(l.ttl/time.Second))
	}
	if err := l.rdb.Process(ctx, cmd); err != nil {
		return fmt.Errorf("let %s expire: %w", l.key, err)
	}
	return nil
}

func wholeSeconds(ttl time.Duration) bool { return ttl%time.Second == 0 }

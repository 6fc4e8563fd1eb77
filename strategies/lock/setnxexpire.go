package lock

import (
	"context"
	"fmt"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// setNXExpire is the book's timed lock: SETNX, then EXPIRE (PEXPIRE for a TTL that is not whole seconds); a waiter who
// finds the lock without a TTL gives it one, because its holder may have died between the two commands. Released as
// setnx is. It promises that only its holder releases it and that a crashed holder does not hold it for good, if
// somebody waits.
//
// What breaks it: a holder that is paused for longer than the TTL, as with set-px. One that is paused between its two
// commands is caught as well, before it has worked at all: a waiter's TTL passes, the next one takes the lock, and the
// holder's EXPIRE succeeds on a lock that is not its own. The book does not look.
//
// Source: Redis in Action, section 6.2.5, acquire_lock_with_timeout.
func setNXExpire() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true}
	return Kind{
		Name:     "setnx-expire",
		Summary:  "SETNX, then EXPIRE; a waiter who finds no TTL sets one",
		Source:   "Redis in Action, section 6.2.5",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			return &polled{
				poller: newPoller(env), promises: promises,
				grant: func(name string) grant { return &repairingLease{newSetNXExpireLease(env, name)} },
			}, nil
		},
	}
}

// repairingLease is one whose waiters look after a holder that did not come to set the TTL.
type repairingLease struct{ setNXExpireLease }

// take implements grant.
func (l *repairingLease) take(ctx context.Context) (bool, error) {
	if taken, err := l.setNXExpireLease.take(ctx); taken || err != nil {
		return taken, err
	}
	return false, l.repair(ctx)
}

func (l *repairingLease) repair(ctx context.Context) error {
	const endless = -1 // what PTTL answers about a key without one
	ttl, err := l.rdb.PTTL(ctx, l.key).Result()
	if err != nil {
		return fmt.Errorf("read the TTL of %s: %w", l.key, err)
	}
	if ttl != endless {
		return nil
	}
	l.steps.At(ctx, step.Looked)
	return l.expire(ctx)
}

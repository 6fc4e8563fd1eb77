package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// The locks of this file are the book's two and, between them, the form that the second one corrects. All put a random
// token into the same key and release it in the same way, so that the version without and the one with an expiry can be
// mixed on one name, as they are where a program is changed while it runs. Two things happen then. A waiter of
// setnx-expire finds that the lock of setnx has no expiry and sets one: setnx can lose a lock that it believes never to
// expire. And if it does so between the WATCH and the EXEC of a release, the release is aborted and tried again, so
// that the lock is held for longer.

// setNX is the book's first lock: SETNX with a random token, polled; released under WATCH, GET, MULTI, DEL, EXEC, and
// again when the key changed in between. It promises that only its holder releases it.
//
// What breaks it: it never expires. A holder that dies holds it for good, and everybody else times out (scenario
// crash-holding). The same happens when the reply to SETNX is lost, because the published code does not delete the
// token that it may have set (lost-acquire); lost-reply=released is the correction. It also happens when a holder
// releases it while the server is out of memory, because Redis then queues nothing in a MULTI, not even a DEL.
//
// Source: Redis in Action, section 6.2.3, acquire_lock and release_lock.
func setNX() Kind {
	return polling(Kind{
		Name:     "setnx",
		Summary:  "SETNX with a random token, never expires; a dead holder holds it for good",
		Source:   "Redis in Action, section 6.2.3",
		Params:   []param.Param{lostReplyParam, PollParam, TimeoutParam},
		Promises: Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true},
		Variants: []string{":lost-reply=" + lostReplyReleased},
	}, func(l redisLease) grant { return &setNXLease{l} })
}

// setNXExpireNaive is setnx with an expiry: SETNX, then EXPIRE as a second command (PEXPIRE for a TTL that is not whole
// seconds, so that tests can be short). It is released as setnx is, so that its flaw stands alone. It promises that
// only its holder releases it, and looks as if a crashed holder did not hold it for good.
//
// What breaks it: a holder that dies between the two commands (scenario crash-half-taken). The key then has no TTL,
// nobody gives it one, and everybody else times out for good. A lost reply to SETNX does the same (lost-acquire). The
// book repairs this in setnx-expire, Redis with NX and an expiry in SET.
//
// Source: articles from before Redis 2.6.12 (2013), whose SET can do both at once, and many since.
func setNXExpireNaive() Kind {
	return polling(Kind{
		Name:     "setnx-expire-naive",
		Summary:  "WRONG: SETNX, then EXPIRE; whoever dies between the two holds it for good",
		Source:   "articles from before Redis 2.6.12",
		Promises: Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, lostReplyParam, PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &setNXExpireLease{setNXLease{l}} })
}

// setNXExpire is the book's timed lock: SETNX, then EXPIRE (PEXPIRE for a TTL that is not whole seconds). A waiter who
// finds the lock without a TTL sets one, because its holder may have died between the two commands, or does not know
// that it holds the lock. It is released as setnx is. It promises that only its holder releases it and that a crashed
// holder does not hold it for good, if somebody waits.
//
// What breaks it: a holder that is paused for longer than the TTL, as with set-px. A holder that is paused between its
// two commands is overtaken too, before it has worked at all: the TTL that a waiter set passes, the next worker takes
// the lock, and the holder's EXPIRE succeeds on a lock that is not its own. The book does not check this.
//
// Source: Redis in Action, section 6.2.5, acquire_lock_with_timeout.
func setNXExpire() Kind {
	return polling(Kind{
		Name:     "setnx-expire",
		Summary:  "SETNX, then EXPIRE; a waiter who finds no TTL sets one",
		Source:   "Redis in Action, section 6.2.5",
		Promises: Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, lostReplyParam, PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &repairingLease{setNXExpireLease{setNXLease{l}}} })
}

const lostReplyReleased = "released"

// lostReplyParam is what an acquisition does that fails after it may have taken the lock.
var lostReplyParam = param.Choice("lost-reply",
	"a lock that may be held although its reply was lost: kept, as published, or released", "kept", lostReplyReleased)

type setNXLease struct{ redisLease }

// take implements grant.
func (l *setNXLease) take(ctx context.Context) (bool, error) {
	taken, err := l.setNX(ctx, l.token)
	return taken, l.failed(ctx, err, Abandon)
}

// failed returns the error of an acquisition. It first gives back what may be held, if the lock is to do so.
func (l *setNXLease) failed(ctx context.Context, err error,
	abandon func(context.Context, error, func(context.Context) error) error,
) error {
	if err == nil || l.env.Params.Text(lostReplyParam) != lostReplyReleased {
		return err
	}
	return abandon(ctx, err, l.Release)
}

// Release implements Lease.
func (l *setNXLease) Release(ctx context.Context) error {
	for {
		err := l.rdb.Watch(ctx, func(tx *redis.Tx) error { return l.deleteIfMine(ctx, tx) }, l.key)
		switch {
		case errors.Is(err, redis.TxFailedErr):
		case backend.Redirected(err) && ctx.Err() == nil: // its slot moves, and nothing was deleted
			time.Sleep(l.env.Params.Duration(PollParam))
		default:
			return l.releases(1, err)
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
	l.env.Steps.At(ctx, step.Looked)
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, l.key).Err() })
	return err
}

type setNXExpireLease struct{ setNXLease }

// take implements grant.
func (l *setNXExpireLease) take(ctx context.Context) (bool, error) {
	if taken, err := l.setNXLease.take(ctx); !taken {
		return false, err
	}
	l.env.Steps.At(ctx, step.Half)
	if err := l.expire(ctx); err != nil {
		return false, l.failed(ctx, err, GiveBack)
	}
	return true, nil
}

// expire gives the lock its TTL, whoever holds it.
func (l *setNXExpireLease) expire(ctx context.Context) error {
	ttl := l.ttl()
	cmd := redis.NewBoolCmd(ctx, "pexpire", l.key, ttl.Milliseconds())
	if wholeSeconds(ttl) {
		cmd = redis.NewBoolCmd(ctx, "expire", l.key, int64(ttl/time.Second))
	}
	if err := l.rdb.Process(ctx, cmd); err != nil {
		return fmt.Errorf("let %s expire: %w", l.key, err)
	}
	return nil
}

// repairingLease sets the TTL that the holder did not set.
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
	l.env.Steps.At(ctx, step.Looked)
	return l.expire(ctx)
}

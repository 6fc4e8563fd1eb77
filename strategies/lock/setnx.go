package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// The locks of this file are the book's two and, between them, the form that the second
// one corrects. All put a random token into the same key and release it in the same way,
// so that they can be mixed on one name, as where a program is changed while it runs. A
// waiter of setnx-expire then sets an expiry for the lock of setnx, which can lose it.

// setNX is the book's first lock: SETNX with a random token, polled; released under
// WATCH, GET, MULTI, DEL, EXEC, and again when the key changed in between.
//
// What breaks it: it never expires. A holder that dies holds it for good (scenario
// crash-holding). So does one whose reply to SETNX is lost, because the published code
// does not delete its token (lost-acquire; corrected by lost-reply=released), and one
// that releases it while the server's memory is full, when a MULTI queues nothing (oom).
// Source: Redis in Action, section 6.2.3, acquire_lock and release_lock.
func setNX() Kind {
	return polling(Kind{
		Name:     "setnx",
		Summary:  "SETNX with a random token, never expires; a dead holder holds it for good",
		Source:   "Redis in Action, section 6.2.3",
		Params:   []param.Param{locking.LostReplyParam, PollParam, TimeoutParam},
		Promises: Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true},
		Variants: []string{":lost-reply=" + locking.LostReplyReleased},
	}, func(h *hold) acquisition { return setNXLock{deletedUnderWatch{h}} })
}

type setNXLock struct{ deletedUnderWatch }

func (l setNXLock) take(ctx context.Context) (bool, error) { return l.setNX(ctx, l.token) }

// setNXExpireNaive is setnx with an expiry: SETNX, then EXPIRE as a second command
// (PEXPIRE where TTL is not whole seconds), released as setnx is. With release=del it
// is as in articles: SETNX key 1, and DEL, so that a late holder also deletes the
// next one's lock (pause-release). With take=script one script does both, so that nobody
// dies in between, as was done before SET had EX and NX.
//
// What breaks it: a holder that dies between the two commands (scenario
// crash-half-taken), or whose reply to SETNX is lost (lost-acquire). Nobody
// gives the key a TTL, and everybody else times out for good. setnx-expire
// repairs this. Source: articles from before Redis 2.6.12 (2013), whose SET can
// do both at once, and many since.
func setNXExpireNaive() Kind {
	return polling(Kind{
		Name:    "setnx-expire-naive",
		Summary: "WRONG: SETNX, then EXPIRE; whoever dies between the two holds it for good",
		Source:  "articles from before Redis 2.6.12",

		Promises: Promises{Exclusive: true, OwnerRelease: true, ClockIndependent: true},
		PromisesWith: func(v param.Values, p *Promises) {
			p.OwnerRelease = v.Text(naiveReleaseParam) != byDel
			p.SurvivesCrash = v.Text(takeParam) == byScript
		},
		Params: []param.Param{
			TTLParam, takeParam, expireParam, naiveReleaseParam,
			locking.LostReplyParam, PollParam, TimeoutParam,
		},
		Variants: []string{":release=" + byDel},
	}, func(h *hold) acquisition {
		if h.env.Params.Text(naiveReleaseParam) == byDel {
			h.token = anybody // the key holds 1, which is no holder's own
			return setNXExpireByDel{deleted{h}}
		}

		return setNXExpireNaiveLock{deletedUnderWatch{h}}
	})
}

type setNXExpireNaiveLock struct{ deletedUnderWatch }

func (l setNXExpireNaiveLock) take(ctx context.Context) (bool, error) {
	return l.setNXThenExpire(ctx)
}

// setNXExpireByDel is setnx-expire-naive with release=del.
type setNXExpireByDel struct{ deleted }

func (l setNXExpireByDel) take(ctx context.Context) (bool, error) { return l.setNXThenExpire(ctx) }

const (
	byDel         = "del"
	expireSeconds = "seconds"
	redisPy2      = "redis-py-2"
	redisPy3      = "redis-py-3"
)

var (
	naiveReleaseParam = param.OneOf("release",
		"compares a token under WATCH (watch), or deletes the key of anybody (del)",
		byWatch, byDel)
	takeParam = param.OneOf("take",
		"SETNX, then EXPIRE (commands), or one script of both, which nobody leaves half done (script)",
		"commands", byScript)
	expireParam = param.OneOf("expire",
		"EXPIRE or PEXPIRE, as ttl needs (exact), or EXPIRE in seconds rounded down, of which 0 deletes the lock",
		"exact", expireSeconds)
	repairParam = param.OneOf("repair",
		"a waiter sets the TTL where there is none (unset), or where the book's code does: where TTL is none or below "+
			"half a second (redis-py-2), or only below half a second (redis-py-3)",
		"unset", redisPy2, redisPy3)
)

// setNXExpire is the book's timed lock: SETNX, then EXPIRE (PEXPIRE where TTL is not
// whole seconds), released as setnx is. A waiter that finds the lock without a TTL sets
// one, because its holder may have died between the two.
//
// What breaks it: a holder that is paused for longer than the TTL, as with set-px. One
// that is paused between its two commands: the TTL that a waiter set passes, the next
// worker takes the lock, and the holder's EXPIRE succeeds on a lock that is not its own
// (pause-half-taken). The book does not check this.
//
// With expire=seconds milliseconds are divided by 1000 for EXPIRE: with a TTL below one
// second EXPIRE 0 deletes the lock that was just taken. Where that is published, a waiter
// polls every second (poll=1s).
//
// That is the text of the book. Its code sets an expiry where TTL, as redis-py returns it,
// is false in Python, and Redis answers 0 in the last half second of a lock. With
// redis-py 2, that of the book's day, 0 and "no expiry" are both None
// (repair=redis-py-2): a waiter that looks in that half second gives the lock its whole
// TTL again, and a dead holder's lock never expires while somebody polls. With redis-py 3
// and later only 0 is false (repair=redis-py-3): a lock without an expiry is not repaired.
//
// Source: Redis in Action, section 6.2.5, acquire_lock_with_timeout; for expire=seconds
// and poll=1s a rendering of it in Java.
func setNXExpire() Kind {
	return polling(Kind{
		Name:    "setnx-expire",
		Summary: "SETNX, then EXPIRE; a waiter that finds no TTL sets one",
		Source:  "Redis in Action, section 6.2.5",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
		},
		PromisesWith: func(v param.Values, p *Promises) {
			p.SurvivesCrash = v.Text(repairParam) == repairParam.Default
		},
		Params: []param.Param{
			TTLParam, expireParam, repairParam, locking.LostReplyParam, PollParam, TimeoutParam,
		},
	}, func(h *hold) acquisition { return setNXExpireLock{deletedUnderWatch{h}} })
}

type setNXExpireLock struct{ deletedUnderWatch }

func (l setNXExpireLock) take(ctx context.Context) (bool, error) {
	taken, err := l.setNXThenExpire(ctx)
	if !taken && err == nil {
		err = l.repair(ctx)
	}
	return taken, err
}

// deletedUnderWatch is the release of the book's locks, whose key holds their token.
type deletedUnderWatch struct{ *hold }

func (d deletedUnderWatch) undo(ctx context.Context) error { return d.deleteWatched(ctx) }

func (d deletedUnderWatch) release(ctx context.Context) error { return d.deleteWatched(ctx) }

// deleteWatched is a release under WATCH: GET, compare, MULTI, DEL, EXEC. An aborted EXEC
// starts it again: the key has changed since WATCH, and the next GET says whose it is now.
func (h *hold) deleteWatched(ctx context.Context) error {
	for {
		err := h.rdb.Watch(ctx, func(tx *redis.Tx) error {
			return h.deleteIfMine(ctx, tx)
		}, h.key)
		if !errors.Is(err, redis.TxFailedErr) {
			return h.releases(1, err) // 1: where the key is another's, err says so
		}
	}
}

func (h *hold) deleteIfMine(ctx context.Context, tx *redis.Tx) error {
	if err := h.mine(ctx, tx); err != nil {
		return err
	}
	h.env.Steps.At(ctx, step.Looked)
	_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		return p.Del(ctx, h.key).Err()
	})
	return err
}

var setNXExpireTake = script("setnx_expire")

// setNXThenExpire takes the timed locks of this file. If SETNX succeeds and EXPIRE fails
// the lock is held: it returns true with the error. setnx-expire has no parameter take, so
// that it always sends two commands.
func (h *hold) setNXThenExpire(ctx context.Context) (bool, error) {
	if h.env.Params.Text(takeParam) == byScript {
		command, n := h.expireCommand()
		return setNXExpireTake.Run(ctx, h.rdb, []string{h.key}, h.token, command, n).Bool()
	}

	if taken, err := h.setNX(ctx, h.token); !taken || err != nil {
		return false, err
	}
	h.env.Steps.At(ctx, step.Half)
	return true, h.expire(ctx)
}

// expire gives the lock its TTL, whoever holds it.
func (h *hold) expire(ctx context.Context) error {
	command, n := h.expireCommand()
	if err := h.rdb.Process(ctx, redis.NewBoolCmd(ctx, command, h.key, n)); err != nil {
		return fmt.Errorf("let %s expire: %w", h.key, err)
	}
	return nil
}

// expireCommand is the command that gives the lock its TTL, and its argument.
func (h *hold) expireCommand() (command string, n int64) {
	unit, n := h.expiry()
	if unit == "ex" || h.env.Params.Text(expireParam) == expireSeconds {
		return "expire", int64(h.ttl() / time.Second)
	}
	return "pexpire", n
}

// repair sets the TTL that the holder did not set.
func (h *hold) repair(ctx context.Context) error {
	ttl, err := h.rdb.TTL(ctx, h.key).Result()
	if err != nil {
		return fmt.Errorf("read the TTL of %s: %w", h.key, err)
	}
	if !h.needsRepair(ttl) {
		return nil
	}

	h.env.Steps.At(ctx, step.Looked)
	return h.expire(ctx)
}

// needsRepair reports whether a waiter takes what TTL answered for a lock without an expiry.
func (h *hold) needsRepair(ttl time.Duration) bool {
	const endless = -1 // what TTL answers about a key without one
	switch h.env.Params.Text(repairParam) {
	case redisPy2:
		return ttl == endless || ttl == 0
	case redisPy3:
		return ttl == 0
	}
	return ttl == endless
}

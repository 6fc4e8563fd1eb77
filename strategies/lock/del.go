package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// The locks of this file are released by DEL, whoever holds the key by then. set-px is what corrects them.

// existsSet is the lock that everybody thinks of first: EXISTS, and if there is no key, SET; released by DEL. It
// promises nothing but that clocks do not matter to it.
//
// What breaks it: it reads and takes in two commands, so two workers who read at the same time both find it free and
// both hold it (scenario expired-race). The first of them to finish frees it for a third, because DEL does not check
// whose lock it deletes. And it never expires: a holder that dies holds it for good.
//
// Source: what the SETNX command was made to replace; still found in tutorials and reviews.
func existsSet() Kind {
	return polling(Kind{
		Name:     "exists-set",
		Summary:  "WRONG: EXISTS, then SET, then DEL; two who look at the same time both hold it",
		Source:   "the first idea; SETNX was made to replace it",
		Promises: Promises{ClockIndependent: true},
		Params:   []param.Param{PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &existsSetLease{deleted{l}} })
}

// setNXFixed is the shortest lock of all: SETNX key 1, and DEL. In the articles whoever does not win gives up at once;
// here Try does that, and so does Acquire with timeout=0s. It promises nothing but that one worker at a time holds it
// while nobody fails, and that clocks do not matter to it.
//
// What breaks it: it never expires, so a holder that dies holds it for good (scenario crash-holding). Nor can anybody
// give back a lock whose reply was lost (lost-acquire), because the key does not say whose it is. For the same reason
// anybody's DEL frees it: a person who deletes the key of a holder that looks dead lets in a second worker, and the
// first one's DEL then lets in a third.
//
// Source: articles that explain SETNX by a lock; redis.io/commands/setnx advises SET instead.
func setNXFixed() Kind {
	return polling(Kind{
		Name:     "setnx-fixed",
		Summary:  "WRONG: SETNX key 1, released by DEL; a dead holder holds it for good, anybody can free it",
		Source:   "articles that explain SETNX by a lock",
		Promises: Promises{Exclusive: true, ClockIndependent: true},
		Params:   []param.Param{PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &setNXFixedLease{deleted{l}} })
}

// setExFixed is the short form of SET's page: SET key 1 EX NX (PX for a TTL that is not whole seconds), released by
// DEL. It promises that a crashed holder does not hold it for good.
//
// What breaks it: the key does not say whose it is. A holder whose lease has expired releases the lock of the next
// holder (scenario pause-release); a third worker then holds it beside that one, and so on. For the same reason an
// acquisition whose reply is lost gives nothing back, because the key may be another worker's. The lock then stays
// taken until it expires.
//
// Source: redis.io/commands/set, "Patterns", before it is made "more robust".
func setExFixed() Kind {
	return polling(Kind{
		Name:     "set-ex-fixed",
		Summary:  "WRONG: SET key 1 EX NX, released by DEL; a late holder deletes the lock of the next",
		Source:   "redis.io/commands/set, the form without a token",
		Promises: Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &setExFixedLease{deleted{l}} })
}

// setExCompare is set-ex-fixed with a random token in the key (SET EX NX; PX for a TTL that is not whole seconds). Its
// holder reads and compares the token before it deletes the key: GET, compare, DEL. It promises that a crashed holder
// does not hold it for good, and seems to promise that only its holder releases it.
//
// What breaks it: comparing and deleting are two commands. If the lease expires between them and the next worker takes
// the lock, the DEL deletes that worker's lock (scenario pause-in-release). set-px does both in one script, setnx under
// WATCH.
//
// Source: articles that stop one step before the script of redis.io/commands/set.
func setExCompare() Kind {
	return polling(Kind{
		Name:     "set-ex-compare",
		Summary:  "WRONG: SET EX NX with a token, released by GET, compare, DEL; it can expire in between",
		Source:   "articles that stop before the release script",
		Promises: Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
	}, func(l redisLease) grant { return &setExCompareLease{deleted{l}} })
}

// anybody is what the key of a lock without an owner holds.
const anybody = "1"

// deleted is a lease that is released by DEL.
type deleted struct{ redisLease }

// Release implements Lease.
func (l *deleted) Release(ctx context.Context) error {
	return l.releases(l.rdb.Del(ctx, l.key).Result())
}

type existsSetLease struct{ deleted }

// take implements grant.
func (l *existsSetLease) take(ctx context.Context) (bool, error) {
	held, err := l.rdb.Exists(ctx, l.key).Result()
	if err != nil || held > 0 {
		return false, err
	}
	l.env.Steps.At(ctx, step.Looked)
	if err := l.rdb.Set(ctx, l.key, anybody, 0).Err(); err != nil {
		// If someone else took the lock meanwhile, this frees theirs. Without it, our own would stay for good.
		return false, Abandon(ctx, err, l.Release)
	}
	return true, nil
}

type setNXFixedLease struct{ deleted }

// take implements grant.
func (l *setNXFixedLease) take(ctx context.Context) (bool, error) { return l.setNX(ctx, anybody) }

type setExFixedLease struct{ deleted }

// take implements grant.
func (l *setExFixedLease) take(ctx context.Context) (bool, error) { return l.setEXNX(ctx, anybody) }

type setExCompareLease struct{ deleted }

// take implements grant.
func (l *setExCompareLease) take(ctx context.Context) (bool, error) {
	taken, err := l.setEXNX(ctx, l.token)
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
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
		return l.releases(0, err)
	}
	l.env.Steps.At(ctx, step.Looked)
	return l.deleted.Release(ctx)
}

// setNX is SETNX.
func (l *redisLease) setNX(ctx context.Context, value any) (bool, error) {
	cmd := redis.NewBoolCmd(ctx, "setnx", l.key, value)
	err := l.rdb.Process(ctx, cmd)
	return cmd.Val(), err
}

// setEXNX is SET EX NX, or SET PX NX for a TTL that is not whole seconds.
func (l *redisLease) setEXNX(ctx context.Context, value string) (bool, error) {
	ttl := l.ttl()
	unit, n := "px", ttl.Milliseconds()
	if wholeSeconds(ttl) {
		unit, n = "ex", int64(ttl/time.Second)
	}
	err := l.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", l.key, value, unit, n, "nx"))
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

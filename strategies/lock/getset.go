package lock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// getSet keeps in the key the time at which the lock ends, by its holder's clock: SETNX of that time. A waiter who
// finds the time past replaces it with a time of its own by GETSET, and holds the lock if GETSET returns the time that
// it had read. Whoever was holder once releases by DEL, without reading the clock; with release=in-time a holder
// whose time is past, by its own clock, leaves the key alone. It promises that a crashed holder does not hold it for
// good.
//
// What breaks it:
//   - Clocks. A client whose clock is ahead finds that a live lock has ended, and takes it (scenario clock-ahead).
//   - Of several waiters one takes it, but the GETSET of the others replaces its time by theirs. If theirs is earlier,
//     because of a clock again, the holder loses the lock before its time.
//   - A waiter that finds the time past just when the lock is released puts its time into a free lock: nobody holds it,
//     and everybody waits for that time.
//   - No owner. A late holder deletes the lock of the next one (pause-release); with release=in-time it does so if it
//     is paused between reading its clock and DEL (pause-in-release). And an acquisition whose reply was lost gives
//     nothing back, because the lock might be another's (lost-acquire).
//
// Source: articles that follow redis.io/commands/setnx, "Design pattern: locking with SETNX"; the page itself asks the
// holder to read the clock before DEL.
func getSet() Kind {
	return polling(Kind{
		Name:     "getset",
		Summary:  "WRONG: SETNX of an end by the client's clock, taken over by GETSET; clocks and losers break it",
		Source:   "redis.io/commands/setnx",
		Promises: Promises{Exclusive: true, SurvivesCrash: true},
		Params:   []param.Param{TTLParam, getSetReleaseParam, PollParam, TimeoutParam},
		Variants: []string{":release=" + releaseInTime},
	}, func(l redisLease) grant { return &getSetLease{deleted: deleted{l}} })
}

const releaseInTime = "in-time"

var getSetReleaseParam = param.Choice("release",
	"who deletes the key: a holder that is late too (always), or only one whose time is not past (in-time)",
	"always", releaseInTime)

type getSetLease struct {
	deleted
	end int64 // in ms, by this client's clock
}

// take implements grant.
func (l *getSetLease) take(ctx context.Context) (bool, error) {
	now := l.env.now()
	l.end = now.Add(l.ttl()).UnixMilli()
	if taken, err := l.setNX(ctx, l.end); taken || err != nil {
		return taken, err
	}
	held, err := l.rdb.Get(ctx, l.key).Int64()
	if errors.Is(err, redis.Nil) || err == nil && held > now.UnixMilli() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.env.Steps.At(ctx, step.Looked)
	return l.takeOver(ctx, held)
}

// takeOver takes a lock that ended at past. If GETSET returns another time, another waiter was faster.
func (l *getSetLease) takeOver(ctx context.Context, past int64) (bool, error) {
	cmd := redis.NewStringCmd(ctx, "getset", l.key, l.end)
	if err := l.rdb.Process(ctx, cmd); errors.Is(err, redis.Nil) {
		return false, nil // it was released meanwhile; now the key holds a time, and nobody holds the lock
	}
	replaced, err := cmd.Int64()
	return err == nil && replaced == past, err
}

// Release implements Lease.
func (l *getSetLease) Release(ctx context.Context) error {
	if l.env.Params.Text(getSetReleaseParam) == releaseInTime {
		if l.env.now().UnixMilli() >= l.end {
			return l.releases(0, nil)
		}
		l.env.Steps.At(ctx, step.Looked)
	}
	return l.deleted.Release(ctx)
}

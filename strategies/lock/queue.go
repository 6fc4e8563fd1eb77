package lock

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// queue is a fair lock. A worker that finds it held takes a place in line and sleeps. A release hands the lock to the
// first in line, in the same script, and publishes the new holder's token, so that exactly that waiter wakes. The
// waiter confirms, and from then on holds the lock for the whole TTL. Messages are hints: each waiter also tries every
// 100 ms, or when the TTL has passed, which also shows that it is alive. A waiter that has not shown this for five such
// intervals, or does not confirm in that time, has died in line and is skipped. The lock costs one round trip to take
// and one to release where nobody else comes, and two to take in line. It promises that only its holder releases it,
// that no crashed holder or waiter stops the others for good, and the order of arrival.
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer (+watchdog helps one that only works
// longer). A waiter that was paused for more than five intervals starts again at the end of the line. Throughput on a
// contended key is bounded by the time it takes to wake each next worker, where a lock that lets newcomers overtake
// keeps one worker busy.
//
// Source: queue locks, where whoever leaves wakes the next; Redisson's RFairLock is the closest library; Redis in
// Action, section 6.3.2, for arrival order with expiry.
func queue() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true}
	return Kind{
		Name:     "queue",
		Summary:  "waiters stand in line and are handed the lock in order, by script; the dead are skipped",
		Source:   "queue locks; Redisson RFairLock",
		Wakes:    "handed over in order by pub/sub, looks every 100ms",
		Promises: promises,
		Params:   []param.Param{TTLParam, lookParam, TimeoutParam},
		Keys:     queueKeys,
		Renews:   true,
		New: func(env Env) (Locker, error) {
			s, err := newSubscribed(env, promises)
			if err != nil {
				return nil, err
			}
			return &queueLocker{s}, nil
		},
	}
}

var lookParam = param.Duration("look", 100*time.Millisecond, time.Millisecond,
	"how often a waiter looks although no message came; after five it counts as dead")

// queuePatience is how many intervals may pass without a sign of life.
const queuePatience = 5

func queueKeys(key string) []string { return []string{key, key + ":line", key + ":alive"} }

var (
	//go:embed queue_line.lua
	queueLineText string
	//go:embed queue_take.lua
	queueTakeText string
	//go:embed queue_release.lua
	queueReleaseText string

	queueTake    = redis.NewScript(queueLineText + queueTakeText)
	queueRelease = redis.NewScript(queueLineText + queueReleaseText)
)

type queueLocker struct{ subscribed }

// Acquire implements Locker.
func (l *queueLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	lease := &queueLease{l.lease(name)}
	err := l.until(ctx, lease.channel(), lease.token, func(ctx context.Context) (time.Duration, error) {
		return lease.take(ctx, "join")
	})
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, Abandon(ctx, err, lease.Release))
	}
	return lease, nil
}

// Try implements Locker.
func (l *queueLocker) Try(ctx context.Context, name string) (Lease, error) {
	lease := &queueLease{l.lease(name)}
	l.asked = time.Now()
	wait, err := lease.take(ctx, "try")
	switch {
	case err != nil:
		return nil, fmt.Errorf("try lock %s: %w", name, Abandon(ctx, err, lease.Release))
	case wait > 0:
		return nil, fmt.Errorf("try lock %s: %w", name, ErrHeld)
	}
	return lease, nil
}

type queueLease struct{ redisLease }

func (l *queueLease) channel() string { return l.key + ":handed" }

func (l *queueLease) look() time.Duration { return l.env.Params.Duration(lookParam) }

func (l *queueLease) patience() int64 { return (queuePatience * l.look()).Milliseconds() }

// take makes one attempt and returns how long to wait for the next one, 0 when the lock is taken.
func (l *queueLease) take(ctx context.Context, how string) (time.Duration, error) {
	left, err := queueTake.Run(ctx, l.rdb, queueKeys(l.key), l.token, l.patience(), l.channel(),
		l.ttl().Milliseconds(), how).Int64()
	return min(time.Duration(left)*time.Millisecond, l.look()), err
}

// Release implements Lease. It also gives up a place in line.
func (l *queueLease) Release(ctx context.Context) error {
	return l.releases(queueRelease.Run(ctx, l.rdb, queueKeys(l.key), l.token, l.patience(), l.channel()).Int64())
}

// Renew implements Renewer.
func (l *queueLease) Renew(ctx context.Context) error {
	return l.background.renew(ctx, compareExpire, []string{l.key}, l.token, l.ttl().Milliseconds())
}

package lock

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// queue is a fair lock. Who finds it held takes a place in line, and sleeps. A release hands the lock to the first in
// line, in the same script, and publishes whose it is now, so that exactly that waiter wakes; it confirms, and from
// then on holds it for the whole TTL. Messages are hints: each waiter also looks every 100 ms, or when the TTL has
// passed, which shows at the same time that it is alive. One that has not shown this for five looks has died in line
// and is skipped, and so is one that does not confirm in that time. It costs one round trip to take and one to
// release where nobody else comes, and two to take in line. It promises that only its holder releases it, that no
// crashed holder or waiter stops the others for good, and the order of arrival.
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer (add +watchdog for one that merely
// works longer). A waiter that was paused for longer than five looks starts again at the end of the line. Throughput
// on a contended key is bounded by the time it takes to wake each next worker, where a lock that lets newcomers
// overtake keeps one worker busy.
//
// Source: queue locks, where whoever leaves wakes the next; Redisson's RFairLock is the closest library; Redis in Action,
// section 6.3.2, for arrival order with expiry.
func queue() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true}
	return Kind{
		Name:     "queue",
		Summary:  "waiters stand in line and are handed the lock in order, by script; the dead are skipped",
		Source:   "queue locks; Redisson RFairLock",
		Wakes:    "handed over in order by pub/sub, looks every 100ms",
		Promises: promises,
		Params:   []param.Param{ttlParam, lookParam, timeoutParam},
		Keys:     queueKeys,
		Renews:   true,
		New: func(env Env) (Locker, error) {
			hub, own, err := openHub(env)
			if err != nil {
				return nil, err
			}
			return &queueLocker{
				listener: listener{hub: hub, timeout: env.Params.Duration(timeoutParam), steps: env.Steps},
				env:      env, promises: promises, own: own, background: newBackground(env),
				ttl: env.Params.Duration(ttlParam), look: env.Params.Duration(lookParam),
			}, nil
		},
	}
}

var lookParam = param.Duration("look", 100*time.Millisecond, time.Millisecond,
	"how often a waiter looks although no message came; after five it counts as dead")

// queuePatience is how many looks may be missed.
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

type queueLocker struct {
	listener
	env        Env
	promises   Promises
	own        io.Closer // the hub if it is not shared
	background *background
	ttl, look  time.Duration
}

// Promises implements Locker.
func (l *queueLocker) Promises() Promises { return l.promises }

// Acquire implements Locker.
func (l *queueLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	lease := l.lease(name)
	err := l.until(ctx, lease.channel(), lease.token, func(ctx context.Context) (time.Duration, error) {
		return lease.take(ctx, "join")
	})
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, abandon(ctx, err, lease.Release))
	}
	return lease, nil
}

// Try implements Locker.
func (l *queueLocker) Try(ctx context.Context, name string) (Lease, error) {
	lease := l.lease(name)
	l.asked = time.Now()
	wait, err := lease.take(ctx, "try")
	switch {
	case err != nil:
		return nil, fmt.Errorf("try lock %s: %w", name, abandon(ctx, err, lease.Release))
	case wait > 0:
		return nil, fmt.Errorf("try lock %s: %w", name, ErrHeld)
	}
	return lease, nil
}

// Close implements io.Closer.
func (l *queueLocker) Close() error {
	if l.own != nil {
		l.own.Close() // never fails
	}
	return l.background.Close()
}

func (l *queueLocker) lease(name string) *queueLease {
	return &queueLease{locker: l, keys: queueKeys(l.env.Key(name)), token: newToken()}
}

type queueLease struct {
	unaware
	locker *queueLocker
	keys   []string
	token  string
}

func (l *queueLease) channel() string { return l.keys[0] + ":handed" }

func (l *queueLease) patience() int64 { return (queuePatience * l.locker.look).Milliseconds() }

// take makes one attempt and answers how long to wait for the next one, 0 when the lock is taken.
func (l *queueLease) take(ctx context.Context, how string) (time.Duration, error) {
	left, err := queueTake.Run(ctx, l.locker.env.Redis, l.keys, l.token, l.patience(), l.channel(),
		l.locker.ttl.Milliseconds(), how).Int64()
	return min(time.Duration(left)*time.Millisecond, l.locker.look), err
}

// Release implements Lease. A place in line is given up, too.
func (l *queueLease) Release(ctx context.Context) error {
	return releaseError(l.keys[0], lost(queueRelease.Run(ctx, l.locker.env.Redis, l.keys, l.token, l.patience(),
		l.channel()).Int64()))
}

// Renew implements Renewer.
func (l *queueLease) Renew(ctx context.Context) error {
	rdb, err := l.locker.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(compareExpire.Run(ctx, rdb, l.keys[:1], l.token, l.locker.ttl.Milliseconds()).Int64())
}

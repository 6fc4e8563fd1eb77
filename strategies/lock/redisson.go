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

// redisson is the lock of the Redisson library: a hash of holder -> entries, entered and left by script. An attempt
// that finds it held answers how long its holder has left; the waiter sleeps until a message says that it is free, or
// that long. All workers of a process share one subscription, and a message wakes one of them. Without a lease time a
// watchdog renews the lock, for 30 s every 10 s; with lease=5s it ends after five seconds. Acquire and Try of a name by
// the Locker that holds it enter again, just as Reenter does; once it was lost, Reenter says so (ErrLost), and Acquire and
// Try start afresh as another holder. It promises that only its holder releases it, that its holder can take it again,
// that a crashed holder does not hold it for good, and, with the watchdog, that a holder hears of its loss.
//
// What breaks it: a lock that becomes free without a message (a key deleted by hand, a message dropped by the
// network) costs a waiter what the holder had left, up to 30 s by default; a subscription that was broken makes all
// look again when it is back. Nobody stands in line: a newcomer overtakes those who sleep. Each process wakes one
// waiter, and all of these but one in vain. A holder that is paused for longer than the expiry writes although
// someone else holds the lock, and the watchdog renews for one that is stuck.
//
// Source: Redisson, RLock and its wiki page "Distributed locks and synchronizers".
func redisson() Kind {
	promises := Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		NoticesLoss: true,
	}
	return Kind{
		Name:     "redisson",
		Summary:  "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:   "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:    "pub/sub, the holder's remaining TTL at the latest",
		Promises: promises,
		Params:   []param.Param{redissonTTLParam, leaseParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			hub, own, err := openHub(env)
			if err != nil {
				return nil, err
			}
			l := &redissonLocker{
				listener: listener{hub: hub, timeout: env.Params.Duration(timeoutParam), steps: env.Steps},
				env:      env, promises: promises, own: own, background: newBackground(env),
				ttl: env.Params.Duration(redissonTTLParam), watched: true, holds: map[string]*redissonHold{},
			}
			if env.Params.Text(leaseParam) != noLease {
				l.ttl, l.watched = env.Params.Duration(leaseParam), false
				l.promises.NoticesLoss = false
			}
			return l, nil
		},
	}
}

// redissonTTLParam is not ttlParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that")

const noLease = "none"

var leaseParam = param.Param{
	Name: "lease", Default: noLease, Summary: "how long the lock is held at most; if given, there is no watchdog",
	Normalize: func(value string) (string, error) {
		if value == noLease {
			return noLease, nil
		}
		return param.Duration("lease", time.Second, 10*time.Millisecond, "").Normalize(value)
	},
}

var (
	//go:embed redisson_take.lua
	redissonTakeText string
	//go:embed redisson_release.lua
	redissonReleaseText string

	redissonTake    = redis.NewScript(redissonTakeText)
	redissonRelease = redis.NewScript(redissonReleaseText)
)

type redissonLocker struct {
	listener
	env        Env
	promises   Promises
	own        io.Closer // the hub if it is not shared
	background *background
	ttl        time.Duration
	watched    bool
	holds      map[string]*redissonHold // what this worker is in, by key
}

// Promises implements Locker.
func (l *redissonLocker) Promises() Promises { return l.promises }

// Acquire implements Locker.
func (l *redissonLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	h, err := l.again(ctx, name)
	if h == nil {
		h = l.hold(name)
		err = l.until(ctx, h.channel(), h.token, h.take)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return h.enter(), nil
}

// Try implements Locker.
func (l *redissonLocker) Try(ctx context.Context, name string) (Lease, error) {
	h, err := l.again(ctx, name)
	if h == nil {
		h = l.hold(name)
		var left time.Duration
		if left, err = h.take(ctx); err == nil && left > 0 {
			err = ErrHeld
		}
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return h.enter(), nil
}

// again enters the lock once more if this worker is in it. It returns nil if it is not, or not any more.
func (l *redissonLocker) again(ctx context.Context, name string) (*redissonHold, error) {
	key := l.env.Key(name)
	h := l.holds[key]
	if h == nil {
		return nil, nil
	}
	err := h.again(ctx)
	if isLost(err) {
		delete(l.holds, key)
		return nil, nil
	}
	return h, ofContext(ctx, err)
}

// Close implements io.Closer.
func (l *redissonLocker) Close() error {
	if l.own != nil {
		l.own.Close() // never fails
	}
	return l.background.Close()
}

func (l *redissonLocker) hold(name string) *redissonHold {
	return &redissonHold{locker: l, key: l.env.Key(name), token: newToken()}
}

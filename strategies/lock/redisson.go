package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/param"
)

// redisson is the lock of the Redisson library: a hash of holder to entries, entered and left by script. An attempt
// that finds it held returns the TTL that its holder has left. The waiter sleeps until a message says that the lock is
// free, or for that TTL. All workers of a process share one subscription, and a message wakes one of them. A watchdog
// renews the lock for 30 s every 10 s; with lease=5s there is no watchdog, and the lock ends after five seconds.
// Acquire and Try of a name by the Locker that holds it enter again, just as Reenter does. After a loss, Reenter
// returns ErrLost, and Acquire and Try start as another holder. It promises that only its holder releases it, that its
// holder can take it again, that a crashed holder does not hold it for good, and, with the watchdog, that a holder
// notices its loss.
//
// What breaks it: a lock that becomes free without a message (a key deleted by hand, a message dropped by the network)
// costs a waiter the TTL that the holder had left, up to 30 s by default; after a broken subscription all waiters try
// again when it is back. Nobody stands in line: a newcomer overtakes those who sleep. Each process wakes one waiter,
// and all of these but one in vain. A holder that is paused for longer than the expiry writes although someone else
// holds the lock, and the watchdog also renews for a holder that is stuck.
//
// Source: Redisson, RLock and its wiki page "Distributed locks and synchronizers".
func redisson() Kind {
	promises := func(v param.Values) Promises {
		return Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
			NoticesLoss: v.Text(leaseParam) == noLease,
		}
	}
	return Kind{
		Name:     "redisson",
		Summary:  "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:   "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:    "pub/sub, the holder's remaining TTL at the latest",
		Promises: promises(nil), PromisesWith: promises,
		Params:   []param.Param{redissonTTLParam, leaseParam, TimeoutParam},
		Variants: []string{":lease=1s"}, // not renewed
		New: func(env Env) (Locker, error) {
			s, err := newSubscribed(env, promises(env.Params))
			if err != nil {
				return nil, err
			}
			l := &redissonLocker{
				subscribed: s, life: env.Params.Duration(redissonTTLParam), watched: true, in: map[string]*redissonStay{},
			}
			if env.Params.Text(leaseParam) != noLease {
				l.life, l.watched = env.Params.Duration(leaseParam), false
			}
			return l, nil
		},
	}
}

// redissonTTLParam is not TTLParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that")

const noLease = "none"

var leaseParam = param.DurationOr("lease", noLease, 10*time.Millisecond,
	"how long the lock is held at most; if given, there is no watchdog")

var (
	//go:embed redisson_take.lua
	redissonTakeText string
	//go:embed redisson_release.lua
	redissonReleaseText string

	redissonTake    = redis.NewScript(redissonTakeText)
	redissonRelease = redis.NewScript(redissonReleaseText)
)

type redissonLocker struct {
	subscribed
	life    time.Duration // what its leases have instead of TTLParam
	watched bool
	in      map[string]*redissonStay // the locks that this worker holds, by key
}

// Acquire implements Locker.
func (l *redissonLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	s, err := l.again(ctx, name)
	if s == nil {
		s = &redissonStay{redisLease: l.lease(name), locker: l}
		err = l.until(ctx, s.channel(), s.token, s.take)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return s.enter(), nil
}

// Try implements Locker.
func (l *redissonLocker) Try(ctx context.Context, name string) (Lease, error) {
	s, err := l.again(ctx, name)
	if s == nil {
		s = &redissonStay{redisLease: l.lease(name), locker: l}
		var left time.Duration
		if left, err = s.take(ctx); err == nil && left > 0 {
			err = ErrHeld
		}
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return s.enter(), nil
}

// again enters the lock once more if this worker holds it. It returns nil if it does not, or not any more.
func (l *redissonLocker) again(ctx context.Context, name string) (*redissonStay, error) {
	key := l.env.Key(name)
	s := l.in[key]
	if s == nil {
		return nil, nil
	}
	err := s.again(ctx)
	if errors.Is(err, ErrLost) {
		delete(l.in, key)
		return nil, nil
	}
	return s, backend.OfContext(ctx, err)
}

// redissonStay is one holder's time with the lock, from its first entry to its last release. As a Lease it is the whole
// stay: the watchdog renews it, and the last release ends it.
type redissonStay struct {
	redisLease
	locker  *redissonLocker
	entries int       // as far as this side knows
	asked   time.Time // when the last attempt to enter was sent
	whole   Lease     // the stay itself, renewed if there is a watchdog
}

func (s *redissonStay) channel() string { return s.key + ":freed" }

func (s *redissonStay) life() int64 { return s.locker.life.Milliseconds() }

// take makes one attempt to enter and returns how long to wait for the next one, 0 when the lock is taken.
func (s *redissonStay) take(ctx context.Context) (time.Duration, error) {
	s.asked = time.Now()
	left, err := redissonTake.Run(ctx, s.rdb, []string{s.key}, s.token, s.life(), s.entries).Int64()
	if err != nil {
		return 0, Abandon(ctx, err, func(ctx context.Context) error { return s.leave(ctx, s.entries) })
	}
	return time.Duration(left) * time.Millisecond, nil
}

// again enters once more. It returns ErrLost when the holder that entered before does not hold the lock any more.
func (s *redissonStay) again(ctx context.Context) error {
	if s.entries == 0 || s.whole.Context().Err() != nil {
		return ErrLost
	}
	left, err := s.take(ctx)
	if err == nil && left > 0 { // someone else holds it
		err = ErrLost
	}
	return err
}

// enter makes a lease of an entry.
func (s *redissonStay) enter() *redissonLease {
	if s.entries++; s.entries == 1 {
		s.locker.in[s.key] = s
		s.whole = s
		if s.locker.watched {
			s.whole = keepRenewing(s, s.asked, s.locker.life/3, s.locker.life, s.env.Steps)
		}
	}
	return &redissonLease{stay: s}
}

// leave reduces the entries to so many.
func (s *redissonStay) leave(ctx context.Context, remain int) error {
	return s.releases(redissonRelease.Run(ctx, s.rdb, []string{s.key}, s.token, s.life(), remain, s.channel(),
		freed).Int64())
}

// Release implements Lease: it frees the lock.
func (s *redissonStay) Release(ctx context.Context) error { return s.leave(ctx, 0) }

// Renew implements Renewer.
func (s *redissonStay) Renew(ctx context.Context) error {
	return s.background.renew(ctx, reentrantRenew, []string{s.key}, s.token, s.life())
}

// redissonLease is one entry.
type redissonLease struct {
	stay     *redissonStay
	released bool
}

// Context implements Lease.
func (l *redissonLease) Context() context.Context { return l.stay.whole.Context() }

// Release implements Lease. The lock is free when each entry has been released.
func (l *redissonLease) Release(ctx context.Context) error {
	s := l.stay
	if l.released {
		return s.releases(0, nil)
	}
	var err error
	if s.entries == 1 {
		if s.locker.in[s.key] == s { // nobody enters this stay again, even if the release fails
			delete(s.locker.in, s.key)
		}
		err = s.whole.Release(ctx)
	} else {
		err = s.leave(ctx, s.entries-1)
	}
	if err == nil || errors.Is(err, ErrLost) {
		l.released = true
		s.entries--
	}
	return err
}

// Reenter implements Reentrant.
func (l *redissonLease) Reenter(ctx context.Context) (Lease, error) {
	s := l.stay
	if l.released {
		return nil, fmt.Errorf("reenter %s: %w", s.key, ErrLost)
	}
	if err := s.again(ctx); err != nil {
		return nil, fmt.Errorf("reenter %s: %w", s.key, err)
	}
	return s.enter(), nil
}

// Renew implements Renewer.
func (l *redissonLease) Renew(ctx context.Context) error { return l.stay.Renew(ctx) }

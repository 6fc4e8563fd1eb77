package lock

import (
	"context"
	"time"

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
	return subscribing(Kind{
		Name:     "redisson",
		Summary:  "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:   "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:    "pub/sub, the holder's remaining TTL at the latest",
		Promises: promises(nil), PromisesWith: promises,
		Params:   []param.Param{redissonTTLParam, leaseParam, TimeoutParam},
		Variants: []string{":lease=1s"}, // not renewed
	}, redissonHold)
}

// redissonTTLParam is not TTLParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that").As(param.Lease)

const noLease = "none"

// leaseParam has no role: whoever gives it chooses another lock, without a watchdog.
var leaseParam = param.DurationOr("lease", noLease, 10*time.Millisecond,
	"how long the lock is held at most; if given, there is no watchdog")

var (
	redissonTake    = script("redisson_take")
	redissonRelease = script("redisson_release")
)

func redissonHold(h *hold) {
	h.channel = h.key + ":freed"
	life, watched := h.env.Params.Duration(redissonTTLParam), h.env.Params.Text(leaseParam) == noLease
	if !watched {
		life = h.env.Params.Duration(leaseParam)
	}
	leave := func(ctx context.Context, n int) error {
		return h.releases(redissonRelease.Run(ctx, h.rdb, []string{h.key}, h.token, life.Milliseconds(), n, h.channel,
			freed).Int64())
	}
	h.Release = func(ctx context.Context) error { return leave(ctx, 0) }
	h.renewedBy(reentrantRenew, []string{h.key}, h.token, life.Milliseconds())
	s := &stay{hold: h, repeats: true}
	s.again = func(ctx context.Context) (bool, error) {
		left, err := redissonTake.Run(ctx, h.rdb, []string{h.key}, h.token, life.Milliseconds(), s.entries).Int64()
		if err != nil {
			return false, Undo(ctx, err, func(ctx context.Context) error { return leave(ctx, s.entries) })
		}
		h.again = time.Duration(left) * time.Millisecond
		return left == 0, nil
	}
	s.first = func(ctx context.Context) (bool, error) {
		asked := time.Now()
		taken, err := s.again(ctx)
		if taken && watched {
			whole := h.Lease
			h.Lease = *keepRenewing(&whole, asked, life/3, life, h.env.Steps)
		}
		return taken, err
	}
	s.leave = func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			return 0, s.whole.Release(ctx) // ends the watchdog
		}
		return n, leave(ctx, n)
	}
	h.take = s.reentrantly
}

package lock

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// redisson is the lock of the Redisson library: a hash of holder to entries, entered and left by script. A waiter
// sleeps until a message says that the lock is free, or for the TTL that its holder has left. All workers of a process
// share one subscription, and a message wakes one of them. A watchdog renews the lock for 30 s every 10 s; with
// lease=5s there is none. Acquire and Try of a name by the Locker that holds it enter again, as Reenter does.
//
// What breaks it:
//   - A holder that is paused for longer than the expiry writes although someone else holds the lock, and the watchdog
//     also renews for a holder that is stuck. It tells nobody that a renewal has failed (redisson/redisson#4698).
//   - An entry whose reply was lost is counted, and once more when it is sent again, but left once: the lock stays
//     until it expires (lost-acquire, resent-acquire), unless lost-reply=released, which the library lacks.
//   - Its release counts down before it deletes, which a server refuses whose memory is full (oom).
//   - What is entered again after it has expired, as with reentrant.
//   - A lock that becomes free without a message (a key deleted by hand, a message dropped) costs a waiter the TTL that
//     the holder had left, up to 30 s. After a broken subscription all waiters try again. Nobody stands in line: each
//     process wakes one waiter, and all of these but one in vain.
//
// Source: Redisson 3.45.1, RedissonLock, LockRenewalScheduler; its wiki page "Distributed locks and synchronizers".
func redisson() Kind {
	return subscribing(Kind{
		Name:    "redisson",
		Summary: "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:  "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:   "pub/sub, the holder's remaining TTL at the latest",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		},
		Params:   []param.Param{redissonTTLParam, leaseParam, LostReplyParam, TimeoutParam},
		Keys:     func(key string) []string { return []string{key, released(key)} },
		Variants: []string{":lease=1s", ":lost-reply=" + lostReplyReleased}, // not renewed; given back
	}, redissonHold)
}

// redissonTTLParam is not TTLParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that").As(param.Lease)

const noLease = "none"

// leaseParam has no role: whoever gives it chooses another lock, without a watchdog.
var leaseParam = param.DurationOr("lease", noLease, 10*time.Millisecond,
	"how long the lock is held at most; if given, there is no watchdog")

// answerLife is how long the answer to a release is kept: Redisson's time-out and wait, as often as it tries.
const answerLife = 3 * (3*time.Second + 1500*time.Millisecond)

// released is the key of the answer to the last release.
func released(key string) string { return key + ":released" }

var (
	redissonTake    = script("redisson_take")
	redissonRelease = script("redisson_release")
)

func redissonHold(h *hold) {
	h.channel = h.key + ":freed"
	life := orDefault(h.env.Params, leaseParam, h.env.Params.Duration(redissonTTLParam))
	h.renewedBy(reentrantRenew, []string{h.key}, h.token, life.Milliseconds())
	leave := func(ctx context.Context) *redis.Cmd {
		return redissonRelease.Run(ctx, h.rdb, []string{h.key, released(h.key)}, h.token, life.Milliseconds(), h.channel,
			freed, rand.Text(), answerLife.Milliseconds())
	}
	endRenewals := func() {}
	enter := func(ctx context.Context) (bool, error) {
		asked := time.Now()
		left, err := redissonTake.Run(ctx, h.rdb, []string{h.key}, h.token, life.Milliseconds()).Int64()
		if err != nil {
			return false, err
		}
		h.again = time.Duration(left) * time.Millisecond
		if left == 0 && h.env.Params.Text(leaseParam) == noLease {
			endRenewals()
			renewed := keepRenewing(&Lease{Renew: h.Renew}, asked, life/3, life, h.env.Steps) // it tells nobody of a loss
			endRenewals = renewed.Abandon
		}
		return left == 0, nil
	}
	h.stayByScript(enter, leave, func() { endRenewals() })
}

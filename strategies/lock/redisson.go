package lock

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/param"
)

// redisson is the lock of the Redisson library: a hash of holder to entries,
// entered and left by script. A waiter sleeps until a message says that the lock is
// free, or for the TTL that its holder has left. All workers of a process share one
// subscription, and a message wakes one of them. A watchdog renews the lock for 30
// s every 10 s; with lease=5s there is none. Acquire and Try of a name by the
// Locker that holds it enter again.
//
// What breaks it:
//   - A holder that is paused for longer than the expiry writes although someone else
//     holds the lock, and the watchdog also renews for a holder that is stuck. It tells
//     nobody that a renewal has failed (redisson/redisson#4698).
//   - An entry whose reply was lost is counted, and once more when it is sent again, but
//     left once: the lock stays until it expires (lost-acquire, resent-acquire), unless
//     lost-reply=released, which the library lacks.
//   - Its release counts down before it deletes, which a server refuses whose
//     memory is full (oom).
//   - What is entered again after it has expired, as with reentrant.
//   - A lock that becomes free without a message (a key deleted by hand, a message
//     dropped) costs a waiter the TTL that the holder had left, up to 30 s. After a
//     broken subscription all waiters try again. Nobody stands in line: each process
//     wakes one waiter, of whom all but one find it taken.
//
// Source: Redisson 3.45.1, RedissonLock, LockRenewalScheduler; its wiki page
// "Distributed locks and synchronizers".
func redisson() Kind {
	return subscribing(Kind{
		Name:    "redisson",
		Summary: "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:  "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:   "pub/sub, the holder's remaining TTL at the latest",

		// Renews is not set, though its leases have Renew: +watchdog would be a second watchdog
		// beside its own.
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
			Reentrant: true,
		},
		Params: []param.Param{redissonTTLParam, leaseParam, locking.LostReplyParam, TimeoutParam},
		// The second has the answer to the last release. The scripts take them in this order.
		Keys: func(key string) []string { return []string{key, key + ":released"} },
		// With a lease of its own it is not renewed; if the reply to an acquisition was lost, it is
		// given back.
		Variants: []string{":lease=1s", ":lost-reply=" + locking.LostReplyReleased},
	}, func(h *hold) acquisition {
		h.channel = h.key + ":freed"

		own := countedByServer{h, &redissonScripts{hold: h}}
		return renewedEntry{&entry{hold: h, own: own}}
	})
}

var (
	redissonTake    = script("redisson_take")
	redissonRelease = script("redisson_release")
)

// redissonScripts are the entryScripts of redisson, and its watchdog.
type redissonScripts struct {
	*hold
	watchdog *Lease // whose Abandon ends it; nil: there is none
}

// life is for how long the lock is taken or renewed.
func (r *redissonScripts) life() time.Duration {
	return orDefault(r.env.Params, leaseParam, r.env.Params.Duration(redissonTTLParam))
}

// enterOnce enters by a script, which answers 0, or for how many ms its holder has the lock.
// Each entry sets the expiry again, and without a lease gets a watchdog in place of the last.
func (r *redissonScripts) enterOnce(ctx context.Context) (bool, error) {
	// Not r.asked: where a holder enters again, r is the hold of its first entry.
	asked := time.Now()
	life := r.life().Milliseconds()
	left, err := redissonTake.Run(ctx, r.rdb, []string{r.key}, r.token, life).Int64()
	if err != nil {
		return false, err
	}

	r.retryIn = time.Duration(left) * time.Millisecond
	if left != 0 {
		return false, nil
	}

	if r.env.Params.Text(leaseParam) == noLease {
		r.endRenewals()
		// It tells nobody of a loss.
		r.watchdog = keepRenewing(&Lease{Renew: r.renew}, asked, r.life()/3, r.life(), r.env.Steps)
	}
	return true, nil
}

func (r *redissonScripts) leaveOnce(ctx context.Context) error {
	return redissonRelease.Run(ctx, r.rdb, r.keys, r.token, r.life().Milliseconds(), r.channel, freed, rand.Text(),
		answerLife.Milliseconds()).Err()
}

func (r *redissonScripts) renew(ctx context.Context) error {
	return r.renewBy(ctx, reentrantRenew, []string{r.key}, r.token, r.life().Milliseconds())
}

func (r *redissonScripts) endRenewals() {
	if r.watchdog != nil {
		r.watchdog.Abandon()
	}
}

// redissonTTLParam is not TTLParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that").As(param.Lease)

const noLease = "none"

// leaseParam has no role: whoever gives it chooses another lock, without a watchdog.
var leaseParam = param.Duration("lease", 0, 10*time.Millisecond,
	"how long the lock is held at most; if given, there is no watchdog").Or(noLease)

// answerLife is how long the answer to a release is kept: Redisson's time-out
// and wait, as often as it tries.
const answerLife = 3 * (3*time.Second + 1500*time.Millisecond)

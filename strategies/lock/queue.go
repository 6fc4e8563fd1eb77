package lock

import (
	"context"
	"time"

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
	return subscribing(Kind{
		Name:     "queue",
		Summary:  "waiters stand in line and are handed the lock in order, by script; the dead are skipped",
		Source:   "queue locks; Redisson RFairLock",
		Wakes:    "handed over in order by pub/sub, looks every 100ms",
		Promises: Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true},
		Params:   []param.Param{TTLParam, lookParam, TimeoutParam},
		Keys:     queueKeys,
		Renews:   true,
	}, queueHold)
}

var lookParam = param.Duration("look", 100*time.Millisecond, time.Millisecond,
	"how often a waiter looks although no message came; after five it counts as dead")

// queuePatience is how many intervals may pass without a sign of life.
const queuePatience = 5

func queueKeys(key string) []string { return []string{key, key + ":line", key + ":alive"} }

var (
	queueTake    = script("queue_line", "queue_take")
	queueRelease = script("queue_line", "queue_release")
)

func queueHold(h *hold) {
	h.compared()
	h.channel, h.queues = h.key+":handed", true
	look, how := h.env.Params.Duration(lookParam), "try"
	if h.waits {
		how = "join"
	}
	patience := (queuePatience * look).Milliseconds()
	h.take = func(ctx context.Context) (bool, error) {
		ttl := h.ttl().Milliseconds()
		left, err := queueTake.Run(ctx, h.rdb, queueKeys(h.key), h.token, patience, h.channel, ttl, how).Int64()
		h.again = min(time.Duration(left)*time.Millisecond, look)
		return err == nil && left == 0, err
	}
	h.releasedBy(queueRelease, queueKeys(h.key), h.token, patience, h.channel) // it also gives up a place in line
}

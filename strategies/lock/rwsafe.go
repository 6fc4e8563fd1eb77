package lock

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwSafe is the read-write lock without the flaws of rw-keys and rw-hash: each reader has an entry of its own with an
// expiry of its own, the writer a key, and every time is the server's, read inside the script. It is phase-fair. A
// writer who has to wait bars new readers, as long as it keeps asking and for bar=10s at most; so those who read
// finish, and a writer gets the lock. The readers who have come by the time that writer is done get in once, together,
// before the next writer does. A waiter keeps its place by asking; the place of one who died lapses after three polls
// (of the longest wait; 100 ms at least, bar at most). It promises that readers share it, that only its holder releases it, that a crashed
// holder does not hold it for good, that clients' clocks do not matter, and that writers are served.
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer (+watchdog helps one that only works
// longer). Writers come in no order among themselves. A reader that is renewed for longer than bar keeps writers out,
// and its lock must be on one Redis: five keys in one slot. Writers pay for the readers' turns: if readers come without
// a pause, each writer waits for all of them once, and each change of turns costs up to a poll.
//
// Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems",
// Real-Time Systems 46(1), 2010, for the phases; the per-reader entries of Redis in Action, section 6.3.1 (counting
// semaphores), with TIME in the script instead of clients' clocks; Redisson's RReadWriteLock is the closest library.
func rwSafe() Kind {
	k := Kind{
		Name:    "rw-safe",
		Summary: "read-write: an entry a reader by the server's clock; readers and writers who wait take turns",
		Source:  "Brandenburg & Anderson, Real-Time Systems 2010",
		Shares:  true,
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Shared: true,
			ServesWriters: true,
		},
		Params: []param.Param{TTLParam, barParam, PollParam, TimeoutParam},
		Keys:   rwSafeKeys,
		Renews: true,
	}
	k = Polls(k)
	k.New = func(env Env) (Locker, error) {
		writer := func(l redisLease) grant { return &rwSafeLease{l, exclusive} }
		return &rwSafeLocker{newPolled(env, k.Promises, writer), env.Params.Duration(barParam)}, nil
	}
	return k
}

var barParam = param.Duration("bar", 10*time.Second, 0,
	"how long one who waits keeps new readers or the next writer out at most")

func rwSafeKeys(key string) []string {
	return []string{key + ":writer", key + ":readers", key + ":bar", key + ":waiting", key + ":turn"}
}

var (
	//go:embed rw_safe_now.lua
	rwSafeNowText string
	//go:embed rw_safe_take.lua
	rwSafeTakeText string
	//go:embed rw_safe_release.lua
	rwSafeReleaseText string
	//go:embed rw_safe_renew.lua
	rwSafeRenewText string

	rwSafeTake    = redis.NewScript(rwSafeNowText + rwSafeTakeText)
	rwSafeRelease = redis.NewScript(rwSafeNowText + rwSafeReleaseText)
	rwSafeRenew   = redis.NewScript(rwSafeNowText + rwSafeRenewText)
)

// rwSafeLocker differs from the other read-write locks because the keys also say who waits.
type rwSafeLocker struct {
	*polled
	bar time.Duration
}

// Acquire implements Locker.
func (l *rwSafeLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	start := time.Now() // on the monotonic clock, which nobody sets
	return l.queue(ctx, name, exclusive, func() time.Duration { return min(l.bar-time.Since(start), l.placeLife()) })
}

// AcquireShared implements SharedLocker.
func (l *rwSafeLocker) AcquireShared(ctx context.Context, name string) (Lease, error) {
	return l.queue(ctx, name, shared, func() time.Duration { return min(l.bar, l.placeLife()) })
}

// queue takes the lock, or waits for it in a place that each attempt keeps for some time. A waiter that gives up
// removes its place: a writer's bar or a reader's turn.
func (l *rwSafeLocker) queue(ctx context.Context, name string, how mode, place func() time.Duration) (Lease, error) {
	lease := &rwSafeLease{l.lease(name), how}
	err := l.until(ctx, func(ctx context.Context) (bool, error) { return lease.attempt(ctx, place()) })
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, Abandon(ctx, err, lease.Release))
	}
	return lease, nil
}

// placeLife is how long the place of a waiter that died remains.
func (l *rwSafeLocker) placeLife() time.Duration {
	return max(100*time.Millisecond, 3*l.retries.waits.Longest())
}

type rwSafeLease struct {
	redisLease
	how mode
}

// take implements grant, without a place to wait in.
func (l *rwSafeLease) take(ctx context.Context) (bool, error) {
	taken, err := l.attempt(ctx, 0)
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// attempt tries to take the lock. If it fails, the caller has a place for as long as place says.
func (l *rwSafeLease) attempt(ctx context.Context, place time.Duration) (bool, error) {
	return rwSafeTake.Run(ctx, l.rdb, rwSafeKeys(l.key), string(l.how), l.token, l.ttl().Milliseconds(),
		max(place, 0).Milliseconds()).Bool()
}

// Release implements Lease.
func (l *rwSafeLease) Release(ctx context.Context) error {
	return l.releases(rwSafeRelease.Run(ctx, l.rdb, rwSafeKeys(l.key), string(l.how), l.token).Int64())
}

// Renew implements Renewer.
func (l *rwSafeLease) Renew(ctx context.Context) error {
	return l.background.renew(ctx, rwSafeRenew, rwSafeKeys(l.key), string(l.how), l.token, l.ttl().Milliseconds())
}

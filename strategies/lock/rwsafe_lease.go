package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// rwSafeLocker differs from the other read-write locks in that one who waits is known to.
type rwSafeLocker struct {
	polled
	bar   time.Duration
	lease func(name string, how mode) *rwSafeLease
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

// queue takes the lock, or waits for it in a place that each attempt keeps for a while. One who gives up takes a
// writer's bar or a reader's place away.
func (l *rwSafeLocker) queue(ctx context.Context, name string, how mode, place func() time.Duration) (Lease, error) {
	lease := l.lease(name, how)
	err := l.until(ctx, func(ctx context.Context) (bool, error) { return lease.attempt(ctx, place()) })
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, abandon(ctx, err, lease.Release))
	}
	return lease, nil
}

// placeLife is how long a place outlives one who died while it waited.
func (l *rwSafeLocker) placeLife() time.Duration { return max(100*time.Millisecond, 3*l.every) }

type rwSafeLease struct {
	unaware
	rdb        *redis.Client
	background *background
	keys       []string
	how        mode
	token      string
	ttl        int64 // ms
}

// take implements grant, without a place to wait in.
func (l *rwSafeLease) take(ctx context.Context) (bool, error) {
	taken, err := l.attempt(ctx, 0)
	if err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// attempt tries to take the lock. One who fails has a place for a while.
func (l *rwSafeLease) attempt(ctx context.Context, place time.Duration) (bool, error) {
	return rwSafeTake.Run(ctx, l.rdb, l.keys, string(l.how), l.token, l.ttl, max(place, 0).Milliseconds()).Bool()
}

// Release implements Lease.
func (l *rwSafeLease) Release(ctx context.Context) error {
	return releaseError(l.keys[0], lost(rwSafeRelease.Run(ctx, l.rdb, l.keys, string(l.how), l.token).Int64()))
}

// Renew implements Renewer.
func (l *rwSafeLease) Renew(ctx context.Context) error {
	rdb, err := l.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(rwSafeRenew.Run(ctx, rdb, l.keys, string(l.how), l.token, l.ttl).Int64())
}

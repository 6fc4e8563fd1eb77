package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// rwSafeLocker differs from the other read-write locks in that a writer who waits bars readers.
type rwSafeLocker struct {
	rwPolled
	bar    time.Duration
	writer func(name string) *rwSafeLease
}

// Acquire implements Locker. A writer who gives up takes its bar away.
func (l *rwSafeLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	w := l.writer(name)
	start := time.Now() // on the monotonic clock, which nobody sets
	err := l.until(ctx, func(ctx context.Context) (bool, error) {
		return w.attempt(ctx, min(l.bar-time.Since(start), l.barLife()))
	})
	if err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, abandon(ctx, err, w.Release))
	}
	return w, nil
}

// barLife is how long a bar outlives a writer who died while it waited: it is renewed at each attempt.
func (l *rwSafeLocker) barLife() time.Duration { return max(100*time.Millisecond, 3*l.every) }

type rwSafeLease struct {
	unaware
	rdb        *redis.Client
	background *background
	keys       []string
	how        mode
	token      string
	ttl        int64 // ms
}

// take implements grant, without a bar.
func (l *rwSafeLease) take(ctx context.Context) (bool, error) {
	taken, err := l.attempt(ctx, 0)
	if err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// attempt tries to take the lock. A writer who fails bars readers for a while.
func (l *rwSafeLease) attempt(ctx context.Context, bar time.Duration) (bool, error) {
	return rwSafeTake.Run(ctx, l.rdb, l.keys, string(l.how), l.token, l.ttl, max(bar, 0).Milliseconds()).Bool()
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

package lock

import (
	"context"
	"fmt"
	"time"
)

// redissonHold is one holder's time with the lock, from its first entry to its last release. As a Lease it is the whole
// of it, which the watchdog renews and the last release ends.
type redissonHold struct {
	unaware
	locker     *redissonLocker
	key, token string
	entries    int       // as far as this side knows
	asked      time.Time // when the last attempt to enter was sent
	whole      Lease     // the hold itself, renewed if there is a watchdog
}

func (h *redissonHold) channel() string { return h.key + ":freed" }

// take makes one attempt to enter and answers how long to wait for the next one, 0 when the lock is taken.
func (h *redissonHold) take(ctx context.Context) (time.Duration, error) {
	h.asked = time.Now()
	left, err := redissonTake.Run(ctx, h.locker.env.Redis, []string{h.key}, h.token, h.locker.ttl.Milliseconds(),
		h.entries).Int64()
	if err != nil {
		return 0, abandon(ctx, err, func(ctx context.Context) error { return h.leave(ctx, h.entries) })
	}
	return time.Duration(left) * time.Millisecond, nil
}

// again enters once more. It returns ErrLost when the holder that entered before does not hold it any more.
func (h *redissonHold) again(ctx context.Context) error {
	if h.entries == 0 || h.whole.Context().Err() != nil {
		return ErrLost
	}
	left, err := h.take(ctx)
	if err == nil && left > 0 { // no longer ours
		err = ErrLost
	}
	return err
}

// enter makes a lease of an entry.
func (h *redissonHold) enter() *redissonLease {
	if h.entries++; h.entries == 1 {
		h.locker.holds[h.key] = h
		h.whole = h
		if h.locker.watched {
			h.whole = keepRenewing(h, h.asked, h.locker.ttl/3, h.locker.ttl, 0, h.locker.env.Steps)
		}
	}
	return &redissonLease{hold: h}
}

// leave brings the entries down to what remains.
func (h *redissonHold) leave(ctx context.Context, remain int) error {
	err := lost(redissonRelease.Run(ctx, h.locker.env.Redis, []string{h.key}, h.token, h.locker.ttl.Milliseconds(),
		remain, h.channel(), freed).Int64())
	return releaseError(h.key, err)
}

// Release implements Lease: it frees the lock.
func (h *redissonHold) Release(ctx context.Context) error { return h.leave(ctx, 0) }

// Renew implements Renewer.
func (h *redissonHold) Renew(ctx context.Context) error {
	rdb, err := h.locker.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(reentrantRenew.Run(ctx, rdb, []string{h.key}, h.token, h.locker.ttl.Milliseconds()).Int64())
}

// redissonLease is one entry.
type redissonLease struct {
	hold     *redissonHold
	released bool
}

// Context implements Lease.
func (l *redissonLease) Context() context.Context { return l.hold.whole.Context() }

// Release implements Lease. The lock is free when each entry has been released.
func (l *redissonLease) Release(ctx context.Context) error {
	h := l.hold
	if l.released {
		return releaseError(h.key, ErrLost)
	}
	var err error
	if h.entries == 1 {
		if h.locker.holds[h.key] == h { // whatever becomes of the release, nobody enters this hold again
			delete(h.locker.holds, h.key)
		}
		err = h.whole.Release(ctx)
	} else {
		err = h.leave(ctx, h.entries-1)
	}
	if err == nil || isLost(err) {
		l.released = true
		h.entries--
	}
	return err
}

// Reenter implements Reentrant.
func (l *redissonLease) Reenter(ctx context.Context) (Lease, error) {
	h := l.hold
	if l.released {
		return nil, fmt.Errorf("reenter %s: %w", h.key, ErrLost)
	}
	if err := h.again(ctx); err != nil {
		return nil, fmt.Errorf("reenter %s: %w", h.key, err)
	}
	return h.enter(), nil
}

// Renew implements Renewer.
func (l *redissonLease) Renew(ctx context.Context) error { return l.hold.Renew(ctx) }

package etcdlock

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/marketsim/marketsim/strategies/lock"
)

// unlocked is a lease that is released as the library releases it: see release=unlock in Kind.
type unlocked struct {
	*lease
	mutex *concurrency.Mutex
}

// Release implements lock.Lease.
func (u *unlocked) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, abandonTimeout)
	defer cancel()
	err := u.mutex.Unlock(ctx)
	if err != nil {
		u.locker.unanswered = append(u.locker.unanswered, u.mutex)
	}
	u.locker.free(u.name, u.released)
	if errors.Is(context.Cause(u.session.ctx), lock.ErrLost) {
		err = lock.ErrLost
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", u.key, err)
	}
	return nil
}

// unlockAgain unlocks once more, now that the server answers, what it did not answer about.
func (l *locker) unlockAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, abandonTimeout)
	defer cancel()
	for _, m := range l.unanswered {
		_ = m.Unlock(ctx) // nobody waits for it
	}
	l.unanswered = nil
}

package lock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A Mutex is one acquisition of a lock in Redis by another module's code.
type Mutex interface {
	// Try makes one attempt. After another error than ErrHeld the lock may have been
	// taken. It may be called again.
	Try(context.Context) error
	// Unlock releases the lock. It returns ErrLost if the lock was not held.
	Unlock(context.Context) error
	// Extend has the TTL begin again, over another connection than the worker's own. It
	// returns ErrLost if the lock was not held.
	Extend(context.Context, *redis.Client) error
}

// OfModule completes the kind of a polling lock that is another module's code. begin
// begins an acquisition of a key under a random token. A module that insists takes any
// error of an attempt for a lock that is held, and tries again.
func OfModule(k Kind, insists bool, begin func(env Env, key, token string) Mutex) Kind {
	k.OwnClock = true
	k.Renews = true
	return polling(k, func(h *hold) acquisition {
		return &moduleLock{hold: h, mutex: begin(h.env, h.key, h.token), insists: insists}
	})
}

// moduleLock is an acquisition by another module's code.
type moduleLock struct {
	*hold
	mutex   Mutex
	insists bool
}

func (m *moduleLock) take(ctx context.Context) (bool, error) {
	err := m.mutex.Try(ctx)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil && m.insists && m.waits && ctx.Err() == nil:
		m.queues = true // it may have taken the lock, so that it is given back when the worker gives up
		return false, nil
	}
	return err == nil, err
}

func (m *moduleLock) undo(ctx context.Context) error { return m.mutex.Unlock(ctx) }

func (m *moduleLock) release(ctx context.Context) error {
	return m.releases(1, m.mutex.Unlock(ctx))
}

func (m *moduleLock) renew(ctx context.Context) error {
	rdb, err := m.locker.background.connection(ctx)
	if err != nil {
		return err
	}
	return m.mutex.Extend(ctx, rdb)
}

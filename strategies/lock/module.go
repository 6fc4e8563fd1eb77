package lock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A Mutex is one acquisition of a lock in Redis by another module's code.
type Mutex interface {
	// Try makes one attempt. It returns ErrHeld if someone else has the lock. After any other error the lock may have been
	// taken. It may be called again.
	Try(ctx context.Context) error
	// Unlock releases the lock. It returns ErrLost if it was not held.
	Unlock(ctx context.Context) error
	// Extend has the TTL begin again, over a connection beside the worker's own. It returns ErrLost if the lock was not
	// held.
	Extend(ctx context.Context, rdb *redis.Client) error
}

// OfModule completes the kind of a lock that waits by trying again and is another module's code. begin begins an
// acquisition of a key under a random token. A module that insists takes any error of an attempt for a lock that is
// held, and tries again.
func OfModule(k Kind, insists bool, begin func(env Env, key, token string) Mutex) Kind {
	k.OwnClock, k.Renews = true, true
	return polling(k, func(h *hold) {
		m := begin(h.env, h.key, h.token)
		h.take = func(ctx context.Context) (bool, error) {
			err := m.Try(ctx)
			switch {
			case errors.Is(err, ErrHeld):
				return false, nil
			case err != nil && insists && h.waits && ctx.Err() == nil:
				h.queues = true // it may have taken the lock, so that it is given back when the worker gives up
				return false, nil
			}
			return err == nil, err
		}
		h.undo = m.Unlock
		h.Release = func(ctx context.Context) error { return h.releases(1, m.Unlock(ctx)) }
		h.renewedOver(m.Extend)
	})
}

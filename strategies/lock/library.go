package lock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// PollParam is the poll of this package's locks, for a lock in a package of its own: equal names, defaults and limits
// make runs comparable.
func PollParam() param.Param { return pollParam }

// TTLParam is the ttl of this package's locks. A watchdog reads it too.
func TTLParam() param.Param { return ttlParam }

// TimeoutParam is the timeout of this package's locks.
func TimeoutParam() param.Param { return timeoutParam }

// Background is a second connection of a Locker, for renewals beside the worker, opened when it is first needed.
type Background struct{ connection *background }

// NewBackground returns a connection that is not open yet.
func NewBackground(env Env) Background { return Background{newBackground(env)} }

// Connection returns the connection.
func (b Background) Connection(ctx context.Context) (*redis.Client, error) {
	return b.connection.connection(ctx)
}

// Close closes the connection if it was opened.
func (b Background) Close() error { return b.connection.Close() }

// Abandon is called when an acquisition failed and may have taken the lock nevertheless: it releases it under a context
// of its own, for a short time, and returns the cause. A server that answered with an error did not give the lock away.
func Abandon(ctx context.Context, cause error, release func(context.Context) error) error {
	return abandon(ctx, cause, release)
}

package lock

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// background is a second connection for what goes on beside the worker, opened when it is first needed. The worker's own
// cannot serve both: a renewal would wait for the very work that it renews.
type background struct {
	dial func(context.Context) (*redis.Client, error)
	mu   sync.Mutex
	rdb  *redis.Client
}

func newBackground(env Env) *background { return &background{dial: env.Dial} }

// connection returns the connection. go-redis serializes its use.
func (b *background) connection(ctx context.Context) (*redis.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		rdb, err := b.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect for renewals: %w", err)
		}
		b.rdb = rdb
	}
	return b.rdb, nil
}

// Close closes the connection if there is one.
func (b *background) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		return nil
	}
	return b.rdb.Close()
}

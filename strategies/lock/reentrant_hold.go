package lock

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed reentrant_enter.lua
	reentrantEnterText string
	//go:embed reentrant_leave.lua
	reentrantLeaveText string
	//go:embed reentrant_renew.lua
	reentrantRenewText string

	reentrantEnter = redis.NewScript(reentrantEnterText)
	reentrantLeave = redis.NewScript(reentrantLeaveText)
	reentrantRenew = redis.NewScript(reentrantRenewText)
)

// hold is one holder of the lock, from its first entry to its last release.
type hold struct {
	rdb        *redis.Client
	background *background
	key, owner string
	ttl        time.Duration
	entries    int
}

func newHold(env Env, background *background, name string) *hold {
	return &hold{
		rdb: env.Redis, background: background, key: env.Key(name), owner: newToken(),
		ttl: env.Params.Duration(ttlParam),
	}
}

// enter enters once more. It returns ErrHeld when someone else holds the lock, and ErrLost when the holder that entered
// before does not hold it any more.
func (h *hold) enter(ctx context.Context) error {
	which, refusal := "first", ErrHeld
	if h.entries > 0 {
		which, refusal = "again", ErrLost
	}
	n, err := reentrantEnter.Run(ctx, h.rdb, []string{h.key}, h.owner, h.ttl.Milliseconds(), which).Int()
	switch {
	case err != nil:
		return abandon(ctx, err, h.undo)
	case n == 0:
		return refusal
	}
	h.entries++
	return nil
}

// undo leaves again if the server has counted an entry that we know nothing of.
func (h *hold) undo(ctx context.Context) error {
	n, err := h.rdb.HGet(ctx, h.key, h.owner).Int()
	if errors.Is(err, redis.Nil) || err == nil && n <= h.entries {
		return nil
	}
	if err != nil {
		return err
	}
	return reentrantLeave.Run(ctx, h.rdb, []string{h.key}, h.owner).Err()
}

func (h *hold) leave(ctx context.Context) error {
	h.entries--
	n, err := reentrantLeave.Run(ctx, h.rdb, []string{h.key}, h.owner).Int()
	if err == nil && n < 0 {
		return ErrLost
	}
	return err
}

// Renew implements Renewer, for all entries.
func (h *hold) Renew(ctx context.Context) error {
	rdb, err := h.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(reentrantRenew.Run(ctx, rdb, []string{h.key}, h.owner, h.ttl.Milliseconds()).Int64())
}

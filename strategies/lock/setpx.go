package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// setPX is the lock of the SET command's page: SET NX with a random token and an expiry, released by a script that
// deletes the key only if it still holds the token (compare-and-delete). The expiry is relative (px, ex) or a time by
// the client's clock (pxat, exat). It promises that only its holder releases it and that a crashed holder does not hold
// it for good.
//
// What breaks it: a holder that is paused for longer than the expiry wakes up and writes although someone else
// holds the lock by then, and does not notice until it releases. Add +watchdog to renew it while its holder works; a
// fencing token is the mend for the paused holder. With pxat and exat, a client whose clock is wrong takes it for too
// long or hardly at all.
//
// Source: redis.io/commands/set, "Patterns".
func setPX() Kind {
	promises := func(v param.Values) Promises {
		return Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: !absolute(v.Text(expiryParam)),
		}
	}
	return Kind{
		Name:     "set-px",
		Summary:  "SET NX with a random token and an expiry; released by a compare-and-delete script",
		Source:   "redis.io/commands/set",
		Wakes:    "poll",
		Promises: promises(nil), PromisesWith: promises,
		Params: []param.Param{ttlParam, expiryParam, pollParam, timeoutParam},
		Check:  checkExpiry,
		Renews: true,
		New: func(env Env) (Locker, error) {
			background := newBackground(env)
			return &polled{
				poller: newPoller(env), promises: promises(env.Params), close: background.Close,
				grant: func(name string) grant {
					return &setPXLease{
						env: env, background: background, key: env.Key(name), token: newToken(),
						ttl: env.Params.Duration(ttlParam), expiry: env.Params.Text(expiryParam),
					}
				},
			}, nil
		},
	}
}

var expiryParam = param.Choice("expiry", "how the expiry is given: relative in ms or s, or as a time of the client's clock",
	"px", "ex", "pxat", "exat")

// checkExpiry refuses an expiry in seconds that is not whole seconds.
func checkExpiry(v param.Values) error {
	ttl, expiry := v.Duration(ttlParam), v.Text(expiryParam)
	if (expiry == "ex" || expiry == "exat") && ttl%time.Second != 0 {
		return fmt.Errorf("expiry=%s counts whole seconds, and ttl is %s", expiry, ttl)
	}
	return nil
}

func absolute(expiry string) bool { return expiry == "pxat" || expiry == "exat" }

//go:embed compare_delete.lua
var compareDeleteText string

//go:embed compare_expire.lua
var compareExpireText string

var (
	compareDelete = redis.NewScript(compareDeleteText)
	compareExpire = redis.NewScript(compareExpireText)
)

type setPXLease struct {
	unaware
	env        Env
	background *background
	key, token string
	ttl        time.Duration
	expiry     string
}

// take implements grant.
func (l *setPXLease) take(ctx context.Context) (bool, error) {
	err := l.env.Redis.Process(ctx, l.set(ctx))
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, abandon(ctx, err, l.Release)
	}
	return true, nil
}

func (l *setPXLease) set(ctx context.Context) *redis.StatusCmd {
	var when int64
	switch l.expiry {
	case "px":
		when = l.ttl.Milliseconds()
	case "ex":
		when = int64(l.ttl / time.Second)
	case "pxat":
		when = l.env.now().Add(l.ttl).UnixMilli()
	case "exat":
		when = l.env.now().Add(l.ttl).Unix()
	}
	return redis.NewStatusCmd(ctx, "set", l.key, l.token, "nx", l.expiry, when)
}

// Release implements Lease.
func (l *setPXLease) Release(ctx context.Context) error {
	return releaseError(l.key, lost(compareDelete.Run(ctx, l.env.Redis, []string{l.key}, l.token).Int64()))
}

// Renew implements Renewer.
func (l *setPXLease) Renew(ctx context.Context) error {
	rdb, err := l.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(compareExpire.Run(ctx, rdb, []string{l.key}, l.token, l.ttl.Milliseconds()).Int64())
}

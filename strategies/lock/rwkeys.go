package lock

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwKeys is a read-write lock of two keys: a counter of readers and the token of the writer, taken and released by
// two scripts. Each key has an expiry, in whole seconds (EX, EXPIRE) where the ttl is that, as where it comes from; any
// other ttl counts in milliseconds (PX, PEXPIRE), so that tests can be short. It promises no more than that readers share it and that a writer is alone while everybody
// finishes in time.
//
// What breaks it: the readers are a number, not names. A reader that outlives the expiry counts down somebody else
// when it releases, and a writer enters while that other reads. Each reader who comes puts the expiry off, so the
// count of a crashed reader stays for as long as others keep coming. Writers wait until there is a moment without
// readers, which may never come. Its two keys need one slot on Redis Cluster.
//
// Source: the scheme of articles on read-write locks, with the expiry of Redis in Action, section 6.2.5; no one
// publication is followed.
func rwKeys() Kind {
	promises := Promises{Exclusive: true, ClockIndependent: true, Shared: true}
	return Kind{
		Name:     "rw-keys",
		Summary:  "read-write: a counter of readers and a writer's key; one reader can free another's",
		Source:   "articles; Redis in Action, section 6.2.5",
		Wakes:    "poll",
		Shares:   true,
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		Keys:     rwKeysKeys,
		New: func(env Env) (Locker, error) {
			ttl := env.Params.Duration(ttlParam)
			lease := func(how mode) func(string) grant {
				return func(name string) grant {
					l := &rwKeysLease{rdb: env.Redis, keys: rwKeysKeys(env.Key(name)), how: how, token: newToken()}
					l.ttl, l.unit = ttl.Milliseconds(), "px"
					if wholeSeconds(ttl) {
						l.ttl, l.unit = int64(ttl/time.Second), "ex"
					}
					return l
				}
			}
			return &rwPolled{
				polled: polled{poller: newPoller(env), promises: promises, grant: lease(exclusive)},
				reader: lease(shared),
			}, nil
		},
	}
}

func rwKeysKeys(key string) []string { return []string{key + ":readers", key + ":writer"} }

var (
	//go:embed rw_keys_take.lua
	rwKeysTakeText string
	//go:embed rw_keys_release.lua
	rwKeysReleaseText string

	rwKeysTake    = redis.NewScript(rwKeysTakeText)
	rwKeysRelease = redis.NewScript(rwKeysReleaseText)
)

type rwKeysLease struct {
	unaware
	rdb   *redis.Client
	keys  []string
	how   mode
	token string // a writer's
	ttl   int64
	unit  string // of ttl: "ex" for seconds, "px" for ms
}

// take implements grant. A reader whose reply was lost counts one down, which may be another reader.
func (l *rwKeysLease) take(ctx context.Context) (bool, error) {
	taken, err := rwKeysTake.Run(ctx, l.rdb, l.keys, string(l.how), l.ttl, l.token, l.unit).Bool()
	if err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// Release implements Lease.
func (l *rwKeysLease) Release(ctx context.Context) error {
	return releaseError(l.keys[0], lost(rwKeysRelease.Run(ctx, l.rdb, l.keys, string(l.how), l.token).Int64()))
}

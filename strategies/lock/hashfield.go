package lock

import (
	"context"
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// hashField keeps all locks of one sort in one hash: HSETEX FNX PX sets the field of a lock to a random token, with a
// TTL of its own, unless the field is there, and a script deletes the field if it still holds the token. The name of the
// lock up to its last colon is the key of the hash, the rest is the field: those of all items are in one hash, and those
// of all accounts in another. It promises what set-px promises.
//
// What breaks it: what breaks set-px. In addition all the locks share a key: whoever deletes it, lets it expire or evicts
// it frees all of them at once, and on a cluster one server has them all. A server older than Redis 8.0 or Valkey 9.0 has
// no TTL a field and no HSETEX, which is found out before a run.
//
// Source: redis.io/commands/hsetex and valkey.io/commands/hsetex.
func hashField() Kind {
	return polling(Kind{
		Name:     "hash-field",
		Summary:  "all locks are fields of one hash, each with a TTL (HSETEX FNX): needs Redis 8.0 or Valkey 9.0",
		Source:   "redis.io/commands/hsetex",
		Promises: Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys: func(key string) []string {
			hash, _ := hashAndField(key)
			return []string{hash}
		},
		Commands: func(param.Values) []Command { return []Command{hSetEx} },
	}, func(l redisLease) grant { return &hashFieldLease{l} })
}

// hashAndField says where a lock is, given the key of its name.
func hashAndField(key string) (hash, field string) {
	if last := strings.LastIndexByte(key, ':'); last >= 0 {
		return key[:last], key[last+1:]
	}
	return "locks", key
}

//go:embed hash_field_release.lua
var hashFieldReleaseText string

var hashFieldRelease = redis.NewScript(hashFieldReleaseText)

type hashFieldLease struct{ redisLease }

// take implements grant.
func (l *hashFieldLease) take(ctx context.Context) (bool, error) {
	hash, field := hashAndField(l.key)
	cmd := redis.NewIntCmd(ctx, "hsetex", hash, "fnx", "px", l.ttl().Milliseconds(), "fields", 1, field, l.token)
	if err := l.rdb.Process(ctx, cmd); err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	return cmd.Val() == 1, nil
}

// Release implements Lease.
func (l *hashFieldLease) Release(ctx context.Context) error {
	hash, field := hashAndField(l.key)
	return l.releases(hashFieldRelease.Run(ctx, l.rdb, []string{hash}, field, l.token).Int64())
}

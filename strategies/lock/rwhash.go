package lock

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwHash is a read-write lock in one hash, so that it works on Redis Cluster without braces in its name: the field
// read is when the last reader came and write when the writer did, in ms by their own clocks. Each counts as held
// until its time-out has passed, one for readers and one for writers, and is released only if it is still the
// releaser's own. It promises that writers exclude each other and that a crashed holder does not hold it for good. It
// does not promise to be shared, although readers get in together: see what breaks it.
//
// What breaks it: there is room for one reader's time. The second reader overwrites that of the first, and when the
// second leaves, nothing says that the first still reads: a writer enters, without a crash or a wrong clock. The
// first leaves and is told that it lost a lock that it held (or, if both came in the same millisecond, deletes the
// time of the other). A client whose clock is ahead finds every time-out passed and takes what is held; what a client
// whose clock is behind takes expires early, and it waits for ever so long for what others took. Writers wait until
// there is a moment without readers.
//
// Source: the scheme of articles on read-write locks for Redis Cluster; no one publication is followed.
func rwHash() Kind {
	promises := Promises{Exclusive: true, SurvivesCrash: true}
	return Kind{
		Name:     "rw-hash",
		Summary:  "read-write: one hash with the times of the last reader and the writer; readers overwrite each other's",
		Source:   "articles on read-write locks for Redis Cluster",
		Wakes:    "poll",
		Shares:   true,
		Promises: promises,
		Params:   []param.Param{readTTLParam, writeTTLParam, pollParam, timeoutParam},
		New: func(env Env) (Locker, error) {
			lease := func(how mode) func(string) grant {
				return func(name string) grant {
					return &rwHashLease{
						env: env, keys: []string{env.Key(name)}, how: how,
						readTTL:  env.Params.Duration(readTTLParam).Milliseconds(),
						writeTTL: env.Params.Duration(writeTTLParam).Milliseconds(),
					}
				}
			}
			return &rwPolled{
				polled: polled{poller: newPoller(env), promises: promises, grant: lease(exclusive)},
				reader: lease(shared),
			}, nil
		},
	}
}

var (
	readTTLParam  = param.Duration("read-ttl", 10*time.Second, 10*time.Millisecond, "how long a reader counts at most")
	writeTTLParam = param.Duration("write-ttl", 10*time.Second, 10*time.Millisecond, "how long a writer counts at most")
)

var (
	//go:embed rw_hash_take.lua
	rwHashTakeText string
	//go:embed rw_hash_release.lua
	rwHashReleaseText string

	rwHashTake    = redis.NewScript(rwHashTakeText)
	rwHashRelease = redis.NewScript(rwHashReleaseText)
)

type rwHashLease struct {
	unaware
	env               Env
	keys              []string
	how               mode
	readTTL, writeTTL int64 // ms
	since             int64 // ms: whose it is
}

// take implements grant.
func (l *rwHashLease) take(ctx context.Context) (bool, error) {
	l.since = l.env.now().UnixMilli()
	taken, err := rwHashTake.Run(ctx, l.env.Redis, l.keys, string(l.how), l.since, l.readTTL, l.writeTTL).Bool()
	if err != nil {
		return false, abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// Release implements Lease.
func (l *rwHashLease) Release(ctx context.Context) error {
	field := "read"
	if l.how == exclusive {
		field = "write"
	}
	return releaseError(l.keys[0], lost(rwHashRelease.Run(ctx, l.env.Redis, l.keys, field, l.since).Int64()))
}

package lock

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwHash is a read-write lock in one hash, so that it works on Redis Cluster without braces in its name. The field read
// holds the time at which the last reader came, and write that of the writer, in ms by their own clocks. Each counts as
// held until its time-out has passed; readers and writers have one each. Each time the lock is taken, the whole hash is
// set to expire after the time-out of the taker, by the server's clock, so that nothing stays for good. A field is
// deleted only if it still holds the time of the releaser. It promises that writers exclude each other and that a
// crashed holder does not hold it for good. It does not promise to be shared, although several readers can hold it: see
// what breaks it.
//
// What breaks it: it has room for the time of one reader. A second reader overwrites the time of the first. When the
// second leaves, nothing says that the first still reads, and a writer enters, without a crash or a wrong clock
// (scenario reader-leaves). When the first leaves, its release reports the loss of a lock that it held (or, if both
// came in the same millisecond, deletes the other's time). A client whose clock is ahead finds every time-out passed
// and takes what is held (clock-ahead). What a client whose clock is behind takes is not seen by others (clock-behind).
// Writers wait until there is a moment without readers.
//
// Source: the scheme of articles on read-write locks for Redis Cluster; no one publication is followed.
func rwHash() Kind {
	return pollingShared(Kind{
		Name:     "rw-hash",
		Summary:  "read-write: one hash with the times of the last reader and the writer; readers overwrite each other's",
		Source:   "articles on read-write locks for Redis Cluster",
		Promises: Promises{Exclusive: true, SurvivesCrash: true},
		Params:   []param.Param{readTTLParam, writeTTLParam, PollParam, TimeoutParam},
	}, func(l redisLease, how mode) grant { return &rwHashLease{redisLease: l, how: how} })
}

var (
	readTTLParam  = param.Duration("read-ttl", time.Second, 10*time.Millisecond, "how long a reader counts at most")
	writeTTLParam = param.Duration("write-ttl", 3*time.Second, 10*time.Millisecond, "how long a writer counts at most")
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
	redisLease
	how   mode
	since int64 // in ms, by this client's clock; it identifies the holder
}

// take implements grant.
func (l *rwHashLease) take(ctx context.Context) (bool, error) {
	ms := func(p param.Param) int64 { return l.env.Params.Duration(p).Milliseconds() }
	l.since = l.env.now().UnixMilli()
	taken, err := rwHashTake.Run(ctx, l.rdb, []string{l.key}, string(l.how), l.since,
		ms(readTTLParam), ms(writeTTLParam)).Bool()
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// Release implements Lease.
func (l *rwHashLease) Release(ctx context.Context) error {
	field := "read"
	if l.how == exclusive {
		field = "write"
	}
	return l.releases(rwHashRelease.Run(ctx, l.rdb, []string{l.key}, field, l.since).Int64())
}

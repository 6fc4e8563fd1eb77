package lock

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwNaive is the first idea of a read-write lock on one instance: two keys, reader and writer, each 1 with an expiry. A
// reader takes it by a script that sets the key reader (SET EX) unless there is a writer; a writer by one that sets the
// key writer (SET EX NX) unless there is a reader. Either is released by DEL of its key. Times that are not whole
// seconds are given by PX. It promises only that a writer is alone while everybody finishes in time and at most one
// reader comes. It does not promise to be shared, although several readers can hold it: see what breaks it.
//
// What breaks it: the keys do not say whose they are. The first reader who leaves deletes the key of all, and a writer
// enters beside the others (scenario reader-leaves). A holder that is late deletes the lock of the next one
// (pause-release). Whoever lost a reply gives nothing back (lost-acquire). Each reader who comes sets the expiry
// again, so a crashed reader counts for as long as others keep coming, and writers wait for a moment without readers. A
// writer cannot enter again. Its two keys do not share a slot on Redis Cluster.
//
// Source: articles on a read-write lock by two keys and a script; no one publication is followed. rw-keys counts the
// readers, and rw-safe is the correction.
func rwNaive() Kind {
	return pollingShared(Kind{
		Name:     "rw-naive",
		Summary:  "WRONG: read-write: a key for readers and one for the writer, both 1; any reader's DEL frees all",
		Source:   "articles: two keys and a script",
		Promises: Promises{Exclusive: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:     rwKeysKeys,
	}, func(l redisLease, how mode) grant { return &rwNaiveLease{rwKeysLease{l, how}} })
}

// rwKeys is a read-write lock of two keys: a counter of readers and the token of the writer, taken and released by two
// scripts. Each key has an expiry: EX and EXPIRE, as in the articles, for a TTL in whole seconds, and PX and PEXPIRE
// for any other, so that tests can be short. It promises only that readers share it and that a writer is alone while
// everybody finishes in time.
//
// What breaks it: the readers are a number, not names. A reader that outlives the expiry subtracts another reader when
// it releases, and a writer enters while that other one reads (scenario reader-late). Each reader who comes puts the
// expiry off, so the count of a crashed reader stays for as long as others keep coming. Writers wait until there is a
// moment without readers, which may never come. Its two keys must lie in one slot on Redis Cluster.
//
// Source: rw-naive with a count of readers and a writer's token, as many correct it; no one publication is followed.
func rwKeys() Kind {
	return pollingShared(Kind{
		Name:     "rw-keys",
		Summary:  "read-write: a counter of readers and a writer's key; one reader can free another's",
		Source:   "rw-naive, as many correct it",
		Promises: Promises{Exclusive: true, ClockIndependent: true, Shared: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:     rwKeysKeys,
	}, func(l redisLease, how mode) grant { return &rwKeysLease{l, how} })
}

func rwKeysKeys(key string) []string { return []string{key + ":readers", key + ":writer"} }

var (
	//go:embed rw_naive_take.lua
	rwNaiveTakeText string
	//go:embed rw_keys_take.lua
	rwKeysTakeText string
	//go:embed rw_keys_release.lua
	rwKeysReleaseText string

	rwNaiveTake   = redis.NewScript(rwNaiveTakeText)
	rwKeysTake    = redis.NewScript(rwKeysTakeText)
	rwKeysRelease = redis.NewScript(rwKeysReleaseText)
)

// rwKeysLease uses its token only for a writer.
type rwKeysLease struct {
	redisLease
	how mode
}

// take implements grant. A reader whose reply was lost subtracts one, which may be another reader.
func (l *rwKeysLease) take(ctx context.Context) (bool, error) {
	taken, err := l.run(ctx, rwKeysTake)
	if err != nil {
		return false, Abandon(ctx, err, l.Release)
	}
	return taken, nil
}

// run runs a script that takes the lock.
func (l *rwKeysLease) run(ctx context.Context, script *redis.Script) (bool, error) {
	ttl := l.ttl()
	n, unit := ttl.Milliseconds(), "px"
	if wholeSeconds(ttl) {
		n, unit = int64(ttl/time.Second), "ex"
	}
	return script.Run(ctx, l.rdb, rwKeysKeys(l.key), string(l.how), n, l.token, unit).Bool()
}

// Release implements Lease.
func (l *rwKeysLease) Release(ctx context.Context) error {
	return l.releases(rwKeysRelease.Run(ctx, l.rdb, rwKeysKeys(l.key), string(l.how), l.token).Int64())
}

type rwNaiveLease struct{ rwKeysLease }

// take implements grant.
func (l *rwNaiveLease) take(ctx context.Context) (bool, error) { return l.run(ctx, rwNaiveTake) }

// Release implements Lease.
func (l *rwNaiveLease) Release(ctx context.Context) error {
	readers, writer := rwKeysKeys(l.key)[0], rwKeysKeys(l.key)[1]
	if l.how == shared {
		return l.releases(l.rdb.Del(ctx, readers).Result())
	}
	return l.releases(l.rdb.Del(ctx, writer).Result())
}

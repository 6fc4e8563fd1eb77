package lock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/param"
)

// rwNaive is the first idea of a read-write lock on one instance: two keys, reader
// and writer, each 1 with an expiry. A script sets the key of a reader (SET EX)
// unless there is a writer, or that of a writer (SET EX NX) unless there is a
// reader. Either is released by DEL. It takes PX where TTL is not whole seconds. It
// does not promise to be shared.
//
// What breaks it: the keys do not say whose they are. The first reader that leaves
// deletes the key of all, and a writer enters beside the others (scenario reader-leaves).
// A holder that is late deletes the lock of the next one (pause-release). Whoever lost a
// reply gives nothing back (lost-acquire). Each new reader sets the expiry again, so a
// crashed reader counts for as long as others keep coming, and writers wait for a moment
// without readers. A writer cannot enter again. Its two keys do not share a slot on Redis
// Cluster. Source: articles on a read-write lock by two keys and a script, none in
// particular. rw-safe is the correction.
func rwNaive() Kind {
	return polling(Kind{
		Name: "rw-naive", Shares: true,
		Summary:  "WRONG: read-write: a key for readers and one for the writer, both 1; any reader's DEL frees all",
		Source:   "articles: two keys and a script",
		Promises: Promises{Exclusive: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:     rwKeysKeys,
	}, func(h *hold) acquisition { return rwNaiveLock{h} })
}

var rwNaiveTake = script("rw_naive_take")

type rwNaiveLock struct{ *hold }

func (l rwNaiveLock) take(ctx context.Context) (bool, error) {
	return l.takeRWKeys(ctx, rwNaiveTake)
}

func (l rwNaiveLock) release(ctx context.Context) error {
	key := l.key + ":writer"
	if l.mode == shared {
		key = l.key + ":readers"
	}
	return l.releases(l.rdb.Del(ctx, key).Result())
}

// rwKeys is a read-write lock of two keys with an expiry (as in rw-naive), a counter of
// readers and the writer's token.
//
// What breaks it: the readers are a number, not names. A reader that outlives the expiry
// subtracts another one when it releases, and a writer enters while that one reads
// (scenario reader-late). Each new reader puts the expiry off, so the count of a crashed
// reader stays while others keep coming; one whose lease is shorter ends that of the
// others too. Writers wait for a moment without readers, which may never come. Its keys
// must lie in one slot on Redis Cluster. Source: rw-naive with a count of readers and a
// writer's token, as many correct it; no one publication is followed.
func rwKeys() Kind {
	return polling(Kind{
		Name: "rw-keys", Shares: true,
		Summary:  "read-write: a counter of readers and a writer's key; one reader can free another's",
		Source:   "rw-naive, as many correct it",
		Promises: Promises{Exclusive: true, ClockIndependent: true, Shared: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
		Keys:     rwKeysKeys,
	}, func(h *hold) acquisition { return rwKeysLock{h} })
}

var (
	rwKeysTake    = script("rw_keys_take")
	rwKeysRelease = script("rw_keys_release")
)

type rwKeysLock struct{ *hold }

func (l rwKeysLock) take(ctx context.Context) (bool, error) { return l.takeRWKeys(ctx, rwKeysTake) }

// undo of a reader whose reply was lost subtracts one, which may be another reader.
func (l rwKeysLock) undo(ctx context.Context) error { return l.release(ctx) }

// release compares the token of a writer, and not that of a reader.
func (l rwKeysLock) release(ctx context.Context) error {
	return l.releaseBy(ctx, rwKeysRelease, l.keys, string(l.mode), l.token)
}

func rwKeysKeys(key string) []string { return []string{key + ":readers", key + ":writer"} }

func (h *hold) takeRWKeys(ctx context.Context, script *redis.Script) (bool, error) {
	unit, n := h.expiry()
	return script.Run(ctx, h.rdb, h.keys, string(h.mode), n, h.token, unit).Bool()
}

// rwHash is a read-write lock in one hash, so that it works on Redis Cluster without
// braces in its name. The field read holds the time at which the last reader came, and
// write that of the writer, in ms by their own clocks. Each counts as held until its
// time-out has passed. Each time the lock is taken, the whole hash is set to expire after
// key-ttl, by the server's clock. A field is deleted only if it holds the time of the
// releaser. It promises no sharing.
//
// What breaks it: it has room for the time of one reader. A second one overwrites the
// time of the first. When the second leaves, nothing says that the first still reads,
// and a writer enters, without a crash or a wrong clock (scenario reader-leaves). A
// client whose clock is ahead finds every time-out passed and takes what is held
// (clock-ahead). What a client whose clock is behind takes is not seen by others
// (clock-behind), and to it the lock of a dead holder lasts longer, up to key-ttl.
// Writers wait for a moment without readers. A lock whose reply was lost is kept
// (lost-acquire), unless lost-reply=released.
func rwHash() Kind {
	return polling(Kind{
		Name: "rw-hash", Shares: true,
		Summary:  "read-write: one hash with the times of the last reader and the writer; readers overwrite each other's",
		Source:   "articles on read-write locks for Redis Cluster",
		Promises: Promises{Exclusive: true, SurvivesCrash: true},
		Params: []param.Param{
			readTTLParam, writeTTLParam, keyTTLParam, locking.LostReplyParam, PollParam, TimeoutParam,
		},
	}, func(h *hold) acquisition { return &rwHashLock{hold: h} })
}

var (
	rwHashTake    = script("rw_hash_take")
	rwHashRelease = script("rw_hash_release")
)

type rwHashLock struct {
	*hold
	since int64 // in ms, by this client's clock; it identifies the holder
}

func (l *rwHashLock) take(ctx context.Context) (bool, error) {
	l.since = l.env.Now().UnixMilli()
	readTTL := l.env.Params.Duration(readTTLParam).Milliseconds()
	writeTTL := l.env.Params.Duration(writeTTLParam).Milliseconds()
	keyTTL := l.env.Params.Duration(keyTTLParam).Milliseconds()
	return rwHashTake.Run(ctx, l.rdb, []string{l.key}, string(l.mode), l.since, readTTL, writeTTL, keyTTL).Bool()
}

func (l *rwHashLock) undo(ctx context.Context) error { return l.release(ctx) }

func (l *rwHashLock) release(ctx context.Context) error {
	field := "write"
	if l.mode == shared {
		field = "read"
	}
	return l.releaseBy(ctx, rwHashRelease, []string{l.key}, field, l.since)
}

var (
	readTTLParam = param.Duration("read-ttl", time.Second, 10*time.Millisecond,
		"how long a reader counts at most").As(param.Lease)
	writeTTLParam = param.Duration("write-ttl", 3*time.Second, 10*time.Millisecond,
		"how long a writer counts at most").As(param.Lease)
	// keyTTLParam is no lease: readers and writers that count the others' times
	// do not wait for it.
	keyTTLParam = param.Duration("key-ttl", 10*time.Second, 10*time.Millisecond,
		"how long the hash lasts after the lock was taken, whatever clients' clocks say")
)

// rwSafe is the read-write lock without the flaws of rw-keys and rw-hash: each reader has
// an entry with an expiry of its own, the writer a key, and every time is the server's,
// read inside the script. It is phase-fair. A waiting writer bars new readers, as long as
// it keeps asking and for bar=10s at most. The readers that have come by the time that
// writer is done get in once, together, before the next writer does. A waiter keeps its
// place by asking; the place of one who died lapses after three polls (of the longest
// wait; 100 ms at least, bar at most).
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer
// (+watchdog helps one that only works longer). Writers come in no order. A reader that
// is renewed for longer than bar keeps writers out. Its five keys must lie in one slot.
// Each writer waits once for all readers that have come. A change of turns costs up to a
// poll. Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for
// multiprocessor real-time systems", Real-Time Systems 46(1), 2010, for the phases; Redis
// in Action, section 6.3.1; Redisson's RReadWriteLock.
func rwSafe() Kind {
	return polling(Kind{
		Name: "rw-safe", Shares: true, Renews: true,
		Summary: "read-write: an entry per reader by the server's clock; waiting readers and writers take turns",
		Source:  "Brandenburg & Anderson, Real-Time Systems 2010",

		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Shared: true,
			ServesWriters: true,
		},
		Params: []param.Param{TTLParam, barParam, PollParam, TimeoutParam},
		// In the order in which the scripts take them: see rw_safe_now.lua.
		Keys: func(key string) []string {
			return []string{key + ":writer", key + ":readers", key + ":bar", key + ":waiting", key + ":turn"}
		},
	}, func(h *hold) acquisition {
		h.queues = true
		return rwSafeLock{hold: h, start: time.Now()}
	})
}

var (
	rwSafeTake    = script("rw_safe_now", "rw_safe_take")
	rwSafeRelease = script("rw_safe_now", "rw_safe_release")
	rwSafeRenew   = script("rw_safe_now", "rw_safe_renew")
)

type rwSafeLock struct {
	*hold
	start time.Time // on the monotonic clock, which nobody sets
}

func (l rwSafeLock) take(ctx context.Context) (bool, error) {
	ttl, place := l.ttl().Milliseconds(), l.place().Milliseconds()
	return rwSafeTake.Run(ctx, l.rdb, l.keys, string(l.mode), l.token, ttl, place).Bool()
}

// place is for how long an attempt keeps a waiter's place: a writer's bar or a reader's
// turn. It outlives the waiter for that long. 0: the attempt keeps none.
func (l rwSafeLock) place() time.Duration {
	if !l.waits {
		return 0
	}
	bar := l.env.Params.Duration(barParam)
	if l.mode == exclusive {
		bar -= time.Since(l.start) // a writer's bar is a total, however often it asks
	}
	untilNextAttempt := max(100*time.Millisecond, 3*l.locker.Backoff.Longest())
	return max(min(bar, untilNextAttempt), 0)
}

func (l rwSafeLock) undo(ctx context.Context) error { return l.release(ctx) }

func (l rwSafeLock) release(ctx context.Context) error {
	return l.releaseBy(ctx, rwSafeRelease, l.keys, string(l.mode), l.token)
}

func (l rwSafeLock) renew(ctx context.Context) error {
	return l.renewBy(ctx, rwSafeRenew, l.keys, string(l.mode), l.token, l.ttl().Milliseconds())
}

var barParam = param.Duration("bar", 10*time.Second, 0,
	"how long one who waits keeps new readers or the next writer out at most").As(param.Lease)

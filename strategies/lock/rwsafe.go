package lock

import (
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// rwSafe is the read-write lock that mends rw-keys and rw-hash: each reader has an entry of its own with an expiry of
// its own, the writer a key, and every time is the server's, read inside the script. It is phase-fair: a writer who has
// to wait bars new readers, as long as it keeps asking and for bar=10s at most, so those who read finish and a writer
// gets the lock; the readers who have come by the time that writer is done get in once, together, before the next
// writer does. One who waits keeps its place by asking, and the place of one who died lapses after three polls
// (100ms at least, bar at most). It promises that readers share it, that only its holder releases it, that a crashed
// holder does not hold it for good, that clients' clocks do not matter, and that writers are served.
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer (add +watchdog for one that merely
// works longer). Among themselves writers come in no order. A reader that is renewed for longer than bar keeps
// writers out, and its lock must be on one Redis: five keys in one slot. Writers pay for the readers' turns: under
// readers who come without a pause each writer waits for all of them once, and each change of turns costs up to a poll.
//
// Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems",
// Real-Time Systems 46(1), 2010, for the phases; the per-reader entries of Redis in Action, section 6.3.1 (counting
// semaphores), with TIME in the script instead of clients' clocks; Redisson's RReadWriteLock is the closest library.
func rwSafe() Kind {
	promises := Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Shared: true,
		ServesWriters: true,
	}
	return Kind{
		Name:     "rw-safe",
		Summary:  "read-write: an entry a reader by the server's clock; readers and writers who wait take turns",
		Source:   "Brandenburg and Anderson 2010; Redis in Action, 6.3.1",
		Wakes:    "poll",
		Shares:   true,
		Promises: promises,
		Params:   []param.Param{ttlParam, barParam, pollParam, timeoutParam},
		Keys:     rwSafeKeys,
		Renews:   true,
		New: func(env Env) (Locker, error) {
			background := newBackground(env)
			lease := func(name string, how mode) *rwSafeLease {
				return &rwSafeLease{
					rdb: env.Redis, background: background, keys: rwSafeKeys(env.Key(name)), how: how,
					token: newToken(), ttl: env.Params.Duration(ttlParam).Milliseconds(),
				}
			}
			return &rwSafeLocker{
				polled: polled{
					poller: newPoller(env), promises: promises, close: background.Close,
					grant: func(name string) grant { return lease(name, exclusive) },
				},
				bar:   env.Params.Duration(barParam),
				lease: lease,
			}, nil
		},
	}
}

var barParam = param.Duration("bar", 10*time.Second, 0, "how long one who waits keeps new readers or the next writer out at most")

func rwSafeKeys(key string) []string {
	return []string{key + ":writer", key + ":readers", key + ":bar", key + ":waiting", key + ":turn"}
}

var (
	//go:embed rw_safe_now.lua
	rwSafeNowText string
	//go:embed rw_safe_take.lua
	rwSafeTakeText string
	//go:embed rw_safe_release.lua
	rwSafeReleaseText string
	//go:embed rw_safe_renew.lua
	rwSafeRenewText string

	rwSafeTake    = redis.NewScript(rwSafeNowText + rwSafeTakeText)
	rwSafeRelease = redis.NewScript(rwSafeNowText + rwSafeReleaseText)
	rwSafeRenew   = redis.NewScript(rwSafeNowText + rwSafeRenewText)
)

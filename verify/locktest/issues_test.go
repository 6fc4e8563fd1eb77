package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// getThenSet extends a lock as a reentrant one was entered again: it reads that the lock is
// its own, and then sets it, whoever has it by then.
func getThenSet(ctx context.Context, rdb *redis.Client, name, token string, w Worker) error {
	if holder, err := rdb.Get(ctx, name).Result(); err != nil || holder != token {
		return orHeld(false, err)
	}
	return rdb.Set(ctx, name, token, w.TTL).Err()
}

// watchAndDelete releases a lock by a transaction that nobody else may come into.
func watchAndDelete(ctx context.Context, rdb *redis.Client, name, token string, _ Worker) error {
	return rdb.Watch(ctx, func(tx *redis.Tx) error {
		holder, err := tx.Get(ctx, name).Result()
		if err != nil || holder != token {
			return orHeld(false, err)
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			return p.Del(ctx, name).Err()
		})
		return err
	}, name)
}

// renewing is a lock whose client renews it, until it releases it or, if it ends at once, a
// renewal fails for whatever reason.
func renewing(endsAtOnce bool) Open {
	return func(life context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			if err := setPX(ctx, rdb, name, token, w); err != nil {
				return nil, err
			}

			holds, stop := context.WithCancel(life)
			go func() {
				for locking.Sleep(holds, w.TTL/5, nil) == nil {
					err := compareAndExpire(holds, rdb, name, token, w)
					if endsAtOnce && err != nil || errors.Is(err, errHeld) {
						return
					}
				}
			}()

			return func(ctx context.Context) error {
				stop()
				return compareAndDelete(ctx, rdb, name, token, w)
			}, nil
		}, rdb, nil
	}
}

// renewedElsewhere is a lock in database 1, whose renewals pass on another connection. That has
// selected the same database only if each connection does so when it begins.
func renewedElsewhere(eachSelects bool) Open {
	return func(life context.Context, w Worker) (Lock, io.Closer, error) {
		options := redis.Options{Dialer: w.Dial}
		if eachSelects {
			options.DB = 1
		}
		rdb := redis.NewClient(&options)

		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			conn := rdb.Conn()
			err := conn.Select(ctx, 1).Err()
			if err == nil {
				err = orHeld(conn.SetNX(ctx, name, token, w.TTL).Result())
			}
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}

			holds, stop := context.WithCancel(life)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for locking.Sleep(holds, w.TTL/3, nil) == nil {
					_ = compareAndExpire(holds, rdb, name, token, w)
				}
			}()

			return func(ctx context.Context) error {
				stop()
				<-done
				defer conn.Close()
				const script = `if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("del", KEYS[1]) end`
				return conn.Eval(ctx, script,
					[]string{name}, token).Err()
			}, nil
		}, rdb, nil
	}
}

// A rollback is what becomes of the first key of a lock if its second is held, or unknown.
type rollback func(ctx context.Context, unlock func(context.Context) error)

func leavesIt(context.Context, func(context.Context) error) {}

func underTheCall(ctx context.Context, unlock func(context.Context) error) { _ = unlock(ctx) }

func detached(ctx context.Context, unlock func(context.Context) error) {
	_ = unlock(context.WithoutCancel(ctx))
}

// bothKeys is a lock of two keys that do not expire. One client has it with either key first,
// each in its own turn, and gives up at once.
func bothKeys(undo rollback) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			keys := []string{name + ":a", name + ":b"}
			if w.Number == 1 {
				slices.Reverse(keys)
			}

			unlock := func(ctx context.Context) (err error) {
				for _, key := range keys {
					err = errors.Join(err, compareAndDelete(ctx, rdb, key, token, w))
				}
				return err
			}

			for _, key := range keys {
				if err := setNX(ctx, rdb, key, token, w); err != nil {
					undo(ctx, unlock)
					return nil, err
				}
			}
			return unlock, nil
		}, rdb, nil
	}
}

var (
	signals = redis.NewScript(`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
		redis.call("del", KEYS[2]) redis.call("lpush", KEYS[2], 1) return redis.call("del", KEYS[1])`)
	signalsAlone = redis.NewScript(`if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
		redis.call("del", KEYS[2]) return redis.call("lpush", KEYS[2], 1)`)
)

// signalled is a lock whose release leaves an element for whoever waits. atOnce says that a
// script does so and deletes the key, so that who has the element finds the lock free.
func signalled(atOnce bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			keys := []string{name, name + ":signal"}

			err := setPX(ctx, rdb, name, token, w)
			for err == errHeld && ctx.Err() == nil {
				_ = rdb.BLPop(ctx, w.TTL, keys[1]).Err()
				err = setPX(ctx, rdb, name, token, w)
			}

			return func(ctx context.Context) error {
				if atOnce {
					return signals.Run(ctx, rdb, keys, token).Err()
				}
				if err := signalsAlone.Run(ctx, rdb, keys, token).Err(); err != nil {
					return err
				}
				return compareAndDelete(ctx, rdb, name, token, w)
			}, err
		}, rdb, nil
	}
}

// What people have reported of their locks is found, and neither what mends it is accused nor
// what they asked about and was sound. Each lock is made from an issue or pull request at
// GitHub; of those that are sound the flawed twin is what was feared.
func TestExploreWhatPeopleReport(t *testing.T) {
	strikes := func(kind explore.Fault) explore.Bounds {
		return explore.Bounds{Faults: 1, Kinds: []explore.Fault{kind}}
	}
	inTurn := explore.Bounds{}
	meets := explore.Bounds{Preemptions: 1}
	twice := explore.Bounds{Preemptions: 2}
	only := func(programs ...string) []work {
		return slices.DeleteFunc(slices.Clone(works), func(w work) bool {
			return !slices.Contains(programs, w.program)
		})
	}
	briefly, long := only("lock"), only("lock", "lock-work-of-1.5-leases", "lock-work-of-3-leases")
	extended := only(
		"lock", "lock-extended", "lock-extended-after-its-lease", "lock-extended-after-anothers")

	for _, test := range []struct {
		issue         string
		flawed, sound Open
		works         []work
		at            explore.Bounds
		harm          verify.Harm
	}{
		{"redisson/redisson#84", extendedBy(getThenSet), extendedBy(compareAndExpire),
			extended, strikes(explore.Pause), verify.ExtendedLost},
		// Nobody renews a lease that ends: no more than a note.
		{"linagora/cozy-stack#4911", renewing(true), renewing(false),
			long, strikes(explore.Lose), verify.Outlived},
		{"redis/redis-py#3124", renewedElsewhere(false), renewedElsewhere(true),
			long, inTurn, verify.TwoHolders},
		{"medusajs/medusa#16285", bothKeys(leavesIt), bothKeys(detached),
			briefly, meets, verify.LockedOut},
		{"kalbasit/ncps#913", bothKeys(underTheCall), bothKeys(detached),
			briefly, strikes(explore.Cancel), verify.LockedOut},
		// Sound: a script is not interrupted.
		{"ionelmc/python-redis-lock#27", signalled(false), signalled(true),
			long, twice, verify.LockedOut},
		// Sound: a transaction that watches the lock.
		{"eclipse-leshan/leshan#837", own(setPX, getThenDel), own(setPX, watchAndDelete),
			briefly, strikes(explore.Pause), verify.FreedAnothers},
	} {
		t.Run(test.issue, func(t *testing.T) {
			without(t, slices.Contains([]string{
				"redisson/redisson#84", "linagora/cozy-stack#4911",
				"kalbasit/ncps#913", "eclipse-leshan/leshan#837",
			}, test.issue))
			text, harms := judged(t, test.works, test.flawed, test.at)
			if !slices.Contains(harms, test.harm) {
				t.Errorf("it does not find %s:\n%s", test.harm, text)
			}

			text, harms = judged(t, test.works, test.sound, test.at)
			accused := func(h verify.Harm) bool {
				return !h.IsNote() || h == test.harm
			}
			if slices.ContainsFunc(harms, accused) {
				t.Errorf("it accuses a lock that is sound:\n%s", text)
			}
		})
	}
}

package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

var renewed = redis.NewScript(
	`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)

// A watched lock has a goroutine of its own that runs a script while the lock is held.
type watched struct {
	options redis.Options
	renewal *redis.Script
	every   time.Duration
	leaks   bool // its renewal goes on after a take whose outcome it does not know
	guards  bool // it holds a mutex over each renewal, which the release waits for
}

func (k watched) open(life context.Context, w Worker) (Lock, io.Closer, error) {
	k.options.Dialer = w.Dial
	rdb := redis.NewClient(&k.options)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		token := rand.Text()
		taken, err := rdb.SetNX(ctx, name, token, w.TTL).Result()
		if err == nil && !taken {
			return nil, errHeld
		}
		if err != nil && !k.leaks {
			return nil, err
		}

		holds, stop := context.WithCancel(life)
		done := make(chan struct{})
		var guard sync.Mutex
		go k.renews(holds, rdb, name, token, w, &guard, done)

		if err != nil {
			stop = func() {} // nobody calls it: the flaw
			return nil, err
		}

		return func(ctx context.Context) error {
			if k.guards {
				guard.Lock()
				defer guard.Unlock()
				stop()
				return compareAndDelete(ctx, rdb, name, token, w)
			}
			stop()
			<-done
			return compareAndDelete(ctx, rdb, name, token, w)
		}, nil
	}, rdb, nil
}

// renews renews until the client holds the lock no more, and then closes done. With a mutex
// the release waits for a renewal that is under way.
func (k watched) renews(
	holds context.Context, rdb *redis.Client, name, token string, w Worker,
	guard *sync.Mutex, done chan<- struct{},
) {
	defer close(done)

	for holds.Err() == nil {
		guard.Lock()
		_ = k.renewal.Run(holds, rdb, []string{name}, token, w.TTL.Milliseconds()).Err()
		guard.Unlock()

		select {
		case <-holds.Done():
		case <-time.After(k.every):
		}
	}
}

// queued waits in a list until it is first there. One that dies there keeps others out,
// and nothing else goes wrong.
func queued(_ context.Context, w Worker) (Lock, io.Closer, error) {
	rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		token := rand.Text()
		queue := name + ":queue"
		if err := rdb.RPush(ctx, queue, token).Err(); err != nil {
			return nil, err
		}

		for err := errHeld; ; {
			first, _ := rdb.LIndex(ctx, queue, 0).Result()
			if first == token {
				err = setPX(ctx, rdb, name, token, w)
			}
			if err != errHeld || ctx.Err() != nil {
				_ = rdb.LRem(context.WithoutCancel(ctx), queue, 0, token).Err()
				return func(ctx context.Context) error {
					return compareAndDelete(ctx, rdb, name, token, w)
				}, err
			}
			time.Sleep(w.TTL / 5)
		}
	}, rdb, nil
}

// notified waits for a message of the client that releases. looks says that it looks once
// more after it has subscribed: else it may miss the message, as clients of redis/rueidis
// did before pull request 604.
func notified(looks bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			unlock := func(ctx context.Context) error {
				if err := compareAndDelete(ctx, rdb, name, token, w); err != nil {
					return err
				}
				return rdb.Publish(ctx, name+":free", "").Err()
			}

			if err := setPX(ctx, rdb, name, token, w); err != errHeld {
				return unlock, err
			}

			messages := rdb.Subscribe(ctx, name+":free")
			defer messages.Close()
			if _, err := messages.Receive(ctx); err != nil {
				return nil, err
			}

			if looks {
				if err := setPX(ctx, rdb, name, token, w); err != errHeld {
					return unlock, err
				}
			}
			_, _ = messages.ReceiveTimeout(ctx, w.TTL)
			return nil, errHeld
		}, rdb, nil
	}
}

// popped waits for an element that the releasing client pushes. late says that a
// waiter may come too late for it.
func popped(late bool) Open { return poppedIn(0, late) }

// poppedIn is popped in a database.
func poppedIn(database int, late bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, DB: database})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			signal := name + ":signal"
			err := setPX(ctx, rdb, name, token, w)
			if err == errHeld {
				_ = rdb.BLPop(ctx, time.Second, signal).Err()
			}

			return func(ctx context.Context) error {
				err := compareAndDelete(ctx, rdb, name, token, w)
				if err == nil {
					err = rdb.LPush(ctx, signal, 1).Err()
				}
				if err == nil && late {
					err = rdb.Del(ctx, signal).Err()
				}
				return err
			}, err
		}, rdb, nil
	}
}

// jittered waits with delays that no seed makes the same again.
func jittered(_ context.Context, w Worker) (Lock, io.Closer, error) {
	rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, Addr: "redis.example.internal:6379"})
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		for {
			token := rand.Text()
			err := setPX(ctx, rdb, name, token, w)
			if err != errHeld {
				return func(ctx context.Context) error {
					return compareAndDelete(ctx, rdb, name, token, w)
				}, err
			}

			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20*time.Millisecond + mathrand.N(20*time.Millisecond)):
			}
		}
	}, rdb, nil
}

// unlockUnderTake releases under the context of the take, which has ended, and does not
// report that this fails: issue 354 of blnkfinance/blnk. With detached the end of that
// context does not matter, as since pull request 355.
func unlockUnderTake(detached bool) Open {
	return func(_ context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			return func(context.Context) error {
				if detached {
					ctx = context.WithoutCancel(ctx)
				}
				_ = compareAndDelete(ctx, rdb, name, token, w)
				return nil
			}, setPX(ctx, rdb, name, token, w)
		}, rdb, nil
	}
}

// renewEach renews keys three times a lease, until ctx ends.
func renewEach(ctx context.Context, rdb *redis.Client, w Worker, token string, keys ...string) {
	for locking.Sleep(ctx, w.TTL/3, nil) == nil {
		for _, key := range keys {
			_ = renewed.Run(ctx, rdb, []string{key}, token, w.TTL.Milliseconds()).Err()
		}
	}
}

// twoKeys is a lock of two keys, which a client takes in its own turn or all in one order, and
// whose second it waits for with the first in hand. It renews what it has
// (blnkfinance/blnk, issue 244).
func twoKeys(inTurn bool) Open {
	return func(life context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			keys := []string{name + ":a", name + ":b"}
			if inTurn && w.Number == 1 {
				slices.Reverse(keys)
			}

			token := rand.Text()
			holds, stop := context.WithCancel(life)
			go renewEach(holds, rdb, w, token, keys...)

			unlock := func(ctx context.Context) (err error) {
				stop()
				for _, key := range keys {
					err = errors.Join(err, compareAndDelete(ctx, rdb, key, token, w))
				}
				return err
			}

			for _, key := range keys {
				err := setPX(ctx, rdb, key, token, w)
				for err == errHeld && locking.Sleep(ctx, w.TTL/2, nil) == nil {
					err = setPX(ctx, rdb, key, token, w)
				}
				if err != nil {
					return nil, errors.Join(err, unlock(context.WithoutCancel(ctx)))
				}
			}
			return unlock, nil
		}, rdb, nil
	}
}

// renewedForUsers is a lock that says no if its user has given up meanwhile. It then keeps what
// it has taken, and renews it, or gives it back.
func renewedForUsers(givesBack bool) Open {
	return func(life context.Context, w Worker) (Lock, io.Closer, error) {
		locks, closer, err := watched{renewal: renewed, every: w.TTL / 3}.open(life, w)
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			unlock, err := locks(context.WithoutCancel(ctx), name)
			if err != nil || ctx.Err() == nil {
				return unlock, err
			}

			if givesBack {
				_ = unlock(life)
			}
			return nil, ctx.Err()
		}, closer, err
	}
}

// released is a lock with a lease that its client renews until it has released it, and on if
// it does not know whether it has. If it forgets its token before the release is sent, the
// one that the caller makes again does nothing (redis-py, issue 3847).
func released(forgets bool) Open {
	return func(life context.Context, w Worker) (Lock, io.Closer, error) {
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			token := rand.Text()
			if err := setPX(ctx, rdb, name, token, w); err != nil {
				return nil, err
			}

			holds, stop := context.WithCancel(life)
			go renewEach(holds, rdb, w, token, name)

			forgotten := false
			return func(ctx context.Context) error {
				if forgotten {
					return errHeld
				}
				forgotten = forgets

				err := compareAndDelete(ctx, rdb, name, token, w)
				if err == nil {
					stop()
				}
				return err
			}, nil
		}, rdb, nil
	}
}

// Locks as people ship them: goroutines of their own, pools of one connection,
// delays that are drawn, addresses with names, messages and lists that are waited
// for. What is wrong with one is found, with the fewest preemptions and faults,
// and nothing where nothing is.
func TestExploreWhatPeopleShip(t *testing.T) {
	none := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: withoutCancel}
	struck := explore.Bounds{Faults: 1, Kinds: withoutCancel}
	stops := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Pause}}
	comesLate := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Die, explore.Late}}
	adds := redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then
		return redis.call("pexpire", KEYS[1], redis.call("pttl", KEYS[1]) + ARGV[2]) end return 0`)
	looks := redis.NewScript(`return redis.call("get", KEYS[1])`)
	loses := explore.Bounds{
		Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Lose, explore.Drop},
	}
	gaveUp := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Cancel}}
	often := lease / 3
	small := redis.Options{PoolSize: 1}
	leaks := watched{
		options: redis.Options{MaxRetries: -1}, renewal: renewed, every: often, leaks: true,
	}

	for name, test := range map[string]struct {
		open Open
		harm verify.Harm // NoHarm: none
		at   explore.Bounds
	}{
		"watchdog":               {watched{renewal: renewed, every: often}.open, verify.NoHarm, none},
		"watchdog, pool of one":  {watched{options: small, renewal: renewed, every: often}.open, verify.NoHarm, none},
		"watchdog with a mutex":  {watched{renewal: renewed, every: often, guards: true}.open, verify.NoHarm, stops},
		"queue":                  {queued, verify.LockedOut, comesLate},
		"watchdog adds up":       {watched{renewal: adds, every: often}.open, verify.LockedOut, struck},
		"watchdog looks only":    {watched{renewal: looks, every: often}.open, verify.TwoHolders, explore.Bounds{}},
		"watchdog leaks":         {leaks.open, verify.LockedOut, struck},
		"message, looks again":   {notified(true), verify.NoHarm, none},
		"message":                {notified(false), verify.LockedOut, explore.Bounds{Preemptions: 1}},
		"list":                   {popped(false), verify.NoHarm, none},
		"list that is deleted":   {popped(true), verify.LockedOut, explore.Bounds{Preemptions: 1}},
		"jitter and a name":      {jittered, verify.NoHarm, none},
		"releases again":         {released(false), verify.NoHarm, loses},
		"forgets its token":      {released(true), verify.LockedOut, explore.Bounds{Faults: 1, Kinds: loses.Kinds}},
		"released under cancel":  {released(true), verify.LockedOut, gaveUp},
		"again after cancel":     {released(false), verify.NoHarm, gaveUp},
		"keeps what it denies":   {renewedForUsers(false), verify.LockedOut, gaveUp},
		"gives back":             {renewedForUsers(true), verify.NoHarm, gaveUp},
		"two keys in turn":       {twoKeys(true), verify.WaitForEachOther, explore.Bounds{Preemptions: 1}},
		"two keys in one order":  {twoKeys(false), verify.NoHarm, explore.Bounds{Preemptions: 1}},
		"unlock under ended ctx": {unlockUnderTake(false), verify.ReleasedNothing, explore.Bounds{}},
		"detached from its end":  {unlockUnderTake(true), verify.NoHarm, none},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, slices.Contains([]string{
				"watchdog", "watchdog, pool of one", "watchdog with a mutex", "watchdog adds up",
				"watchdog leaks", "queue", "list", "message, looks again", "releases again",
				"released under cancel", "again after cancel",
				"gives back", "keeps what it denies", "jitter and a name",
				"detached from its end", "forgets its token",
				"two keys in turn", "two keys in one order",
			}, name))

			bounds := test.at
			bounds.Total = 1
			reports := searchAll(t, works, test.open, bounds, nil)

			fewest := explore.Bounds{Preemptions: 9, Faults: 9}
			for _, f := range foundOf(reports) {
				if f.Harm == test.harm && f.Preemptions+f.Faults < fewest.Preemptions+fewest.Faults {
					fewest.Preemptions = f.Preemptions
					fewest.Faults = f.Faults
				}
				// What is renewed for good keeps others out.
				forGood := test.harm == verify.LockedOut && f.Harm == verify.StillRenews
				if f.Harm != test.harm && !forGood && !f.Harm.IsNote() {
					t.Errorf("found %s\n%s", f.Harm, f.Diagram)
				}
			}

			if test.harm == verify.NoHarm {
				return
			}
			var all string // the bounds of the searches
			for _, r := range reports {
				all += r.Bound() + "\n"
			}
			if fewest.Preemptions != test.at.Preemptions || fewest.Faults != test.at.Faults {
				t.Errorf("%s is found with %d preemptions and %d faults, want %d and %d\n%s", test.harm,
					fewest.Preemptions, fewest.Faults, test.at.Preemptions, test.at.Faults, all)
			}
		})
	}
}

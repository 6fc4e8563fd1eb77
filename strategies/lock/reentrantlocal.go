package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// reentrantLocal is SET EX NX with a token (PX for a TTL that is not whole seconds). The holder counts its entries
// itself, so entering again sends nothing, and releases it by a compare-and-delete script. Acquire and Try by the
// Locker that holds it enter again, just as Reenter does. It promises that only its holder releases it, that a crashed
// holder does not hold it for good, and that its holder can enter again.
//
// As published it is not renewed unless that is asked for (renewals=4), and then at most four times, by a goroutine
// beside the holder: a script that compares the token and sets the expiry, then sleep for the whole TTL (renew=ttl).
// The first renewal comes at once, and is of no use. With renew-by=xx the goroutine does not compare: SET XX PX.
//
// What breaks it:
//   - It expires whatever its holder does, at the latest after its last renewal, and the holder does not notice
//     (scenario stuck-goroutine). The lease can be asked whether it is still held (see Inquirer), and nobody asks.
//   - It is renewed when it is just about to expire, and often that is too late. A shorter renew corrects it.
//   - All locks of one Locker share one flag: the release of any of them ends the renewal of all.
//   - Entering again sends nothing, and succeeds although someone else holds the lock by then.
//   - With renew-by=xx a late renewal overwrites the token of whoever holds the lock by then. The release of the former
//     holder then deletes the lock of that one (pause-release).
//
// reentrant+watchdog and redisson correct all of this.
//
// Source: tutorials that put a ThreadLocal count over a lock that is not reentrant, and a pool thread beside it.
func reentrantLocal() Kind {
	k := Kind{
		Name:    "reentrant-local",
		Summary: "SET EX NX, entries counted by the client; renewed at most four times, if at all, at the last moment",
		Source:  "tutorials: ThreadLocal count and pool thread",
		Params:  []param.Param{TTLParam, renewalsParam, localRenewParam, renewByParam, PollParam, TimeoutParam},
		Check:   checkLocalRenewal,
		Variants: []string{
			":renewals=4",
			":renewals=4:renew-by=" + renewByXX,
		},
	}
	k.PromisesWith = func(v param.Values) Promises {
		return Promises{
			Exclusive: true, OwnerRelease: v.Text(renewByParam) != renewByXX, SurvivesCrash: true, ClockIndependent: true,
			Reentrant: true,
		}
	}
	k.Promises = k.PromisesWith(nil)
	k = Polls(k)
	k.New = func(env Env) (Locker, error) {
		l := &localLocker{in: map[string]*localStay{}, times: env.Params.Count(renewalsParam)}
		l.polled = newPolled(env, k.promises(env.Params), func(of redisLease) grant {
			return &localLease{redisLease: of, locker: l}
		})
		l.between = betweenRenewals(env.Params)
		return l, nil
	}
	return k
}

const (
	wholeTTL  = "ttl"
	renewByXX = "xx"
)

var (
	renewalsParam   = param.Choice("renewals", "how often the lock is renewed before it runs out", "0", "1", "2", "3", "4")
	localRenewParam = param.DurationOr("renew", wholeTTL, time.Millisecond,
		"wait after each renewal; ttl: until the lock is about to expire")
	renewByParam = param.Choice("renew-by",
		"what renews: a script that compares the token, or SET XX, which overwrites another holder's", "script", renewByXX)
)

// betweenRenewals is the wait after each renewal.
func betweenRenewals(v param.Values) time.Duration {
	if v.Text(localRenewParam) == wholeTTL {
		return v.Duration(TTLParam)
	}
	return v.Duration(localRenewParam)
}

// checkLocalRenewal refuses a wait after which the lock has certainly expired, and what only renewals need.
func checkLocalRenewal(v param.Values) error {
	if v.Count(renewalsParam) == 0 {
		for _, p := range []param.Param{localRenewParam, renewByParam} {
			if value := v.Text(p); value != p.Default {
				return fmt.Errorf("%s=%s is of no use without renewals: add renewals=4", p.Name, value)
			}
		}
	}
	if v.Text(localRenewParam) == wholeTTL {
		return nil
	}
	if every, ttl := v.Duration(localRenewParam), v.Duration(TTLParam); every > ttl {
		return fmt.Errorf("renew=%s is too late for a lock that expires after %s", every, ttl)
	}
	return nil
}

// localLocker is the object that all locks of a worker are taken with.
type localLocker struct {
	*polled
	in      map[string]*localStay // the locks that the worker holds, by key
	times   int                   // how often each is renewed
	between time.Duration         // after each renewal

	flag     context.Context // over: nothing is renewed any more
	lower    context.CancelFunc
	renewals sync.WaitGroup
}

// Close implements io.Closer.
func (l *localLocker) Close() error {
	l.endRenewals()
	l.renewals.Wait()
	return l.polled.Close()
}

// renew renews a lease beside its holder, who learns nothing of it.
func (l *localLocker) renew(renew func(context.Context) error) {
	if l.times == 0 {
		return
	}
	if l.flag == nil || l.flag.Err() != nil {
		l.flag, l.lower = context.WithCancel(context.Background())
	}
	ctx := l.flag
	l.renewals.Go(func() {
		for range l.times {
			if renew(ctx) == nil {
				l.env.Steps.At(ctx, step.Renewed)
			}
			select {
			case <-time.After(l.between):
			case <-ctx.Done():
				return
			}
		}
	})
}

// endRenewals ends the renewal of all locks.
func (l *localLocker) endRenewals() {
	if l.lower != nil {
		l.lower()
	}
}

// localStay is one holder's time with the lock, from its first entry to its last release.
type localStay struct {
	lease   *setPXLease
	entries int
}

// localLease is one entry.
type localLease struct {
	redisLease
	locker *localLocker
	stay   *localStay
	left   bool
}

// take implements grant.
func (l *localLease) take(ctx context.Context) (bool, error) {
	if l.stay = l.locker.in[l.key]; l.stay != nil {
		l.stay.entries++
		return true, nil
	}
	lease := &setPXLease{redisLease: l.redisLease, expiry: "px"}
	if wholeSeconds(l.ttl()) {
		lease.expiry = "ex"
	}
	if taken, err := lease.take(ctx); !taken {
		return false, err
	}
	l.stay = &localStay{lease: lease, entries: 1}
	l.locker.in[l.key] = l.stay
	if l.env.Params.Text(renewByParam) == renewByXX {
		l.locker.renew(lease.overwrite)
	} else {
		l.locker.renew(lease.Renew)
	}
	return true, nil
}

// Reenter implements Reentrant.
func (l *localLease) Reenter(context.Context) (Lease, error) {
	if l.left {
		return nil, fmt.Errorf("enter %s again: %w", l.key, ErrLost)
	}
	again := *l
	again.stay.entries++
	return &again, nil
}

// StillMine implements Inquirer.
func (l *localLease) StillMine(ctx context.Context) (bool, error) {
	token, err := l.rdb.Get(ctx, l.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("ask whose %s is: %w", l.key, err)
	}
	return token == l.stay.lease.token, nil
}

// Release implements Lease.
func (l *localLease) Release(ctx context.Context) error {
	if l.left {
		return l.releases(0, nil)
	}
	l.left = true
	if l.stay.entries--; l.stay.entries > 0 {
		return nil
	}
	delete(l.locker.in, l.key)
	l.locker.endRenewals()
	return l.stay.lease.Release(ctx)
}

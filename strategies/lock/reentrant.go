package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backoff"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// reentrant is a hash of its holder to how often that has entered, with an expiry that
// each entry sets again. One script enters; one leaves, and answers nothing (not yours),
// 0 (still held) or 1 (freed). The holder is a random name that a worker makes when it
// enters a free lock. While it is in, Acquire and Try by the same Locker enter again.
//
// What breaks it:
//   - A holder that is paused for longer than the expiry, as with set-px.
//   - If one worker does two things at a time, the lock lets both in. With owner=fixed,
//     such as the name of a thread, two processes of that name are one holder: a late
//     release by one leaves the other's lock (pause-release).
//   - Entering again after the expiry takes it afresh. The older entry's release then
//     frees it during the newer one.
//   - An entry whose reply was lost is counted, and nobody leaves it (lost-acquire),
//     unless lost-reply=released.
//
// Source: tutorials that rebuild the scripts of Redisson's RedissonLock;
// java.util.concurrent, ReentrantLock.
func reentrant() Kind {
	enters, leaves := script("reentrant_enter"), script("reentrant_leave")
	return polling(Kind{
		Name: "reentrant", Renews: true,
		Summary:  "a hash of owner to entries, by script; each entry renews the expiry",
		Source:   "Redisson, RedissonLock",
		Promises: Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true},
		PromisesWith: func(v param.Values, p *Promises) {
			if v.Text(ownerParam) == ownerFixed {
				*p = Promises{Reentrant: true}
			}
		},
		Params:   []param.Param{TTLParam, ownerParam, LostReplyParam, PollParam, TimeoutParam},
		Variants: []string{":owner=" + ownerFixed},
	}, func(h *hold) {
		if h.env.Params.Text(ownerParam) == ownerFixed {
			h.token = "thread-1"
		}
		h.renewedBy(reentrantRenew, []string{h.key}, h.token, h.ttl().Milliseconds())
		command := map[string]string{"ex": "EXPIRE", "px": "PEXPIRE"}
		enter := func(ctx context.Context) (bool, error) {
			unit, n := h.expiry()
			return enters.Run(ctx, h.rdb, []string{h.key}, h.token, command[unit], n).Bool()
		}
		leave := func(ctx context.Context) *redis.Cmd {
			return leaves.Run(ctx, h.rdb, []string{h.key}, h.token)
		}
		h.stayByScript(enter, leave, func() {})
	})
}

const ownerFixed = "fixed"

var ownerParam = param.Choice("owner", "the holder's name: a random one, or the same for all", "random", ownerFixed)

var reentrantRenew = script("reentrant_renew")

// stayByScript completes a reentrant lock that one script enters, if nobody else is in,
// and another one leaves once, which answers nil if the holder was not in. ends comes
// before the last time that it is left.
func (h *hold) stayByScript(
	enter func(context.Context) (bool, error), leave func(context.Context) *redis.Cmd, ends func(),
) {
	s := &stay{hold: h}
	// once, if the server has counted an entry whose reply was lost
	undo := func(ctx context.Context) error {
		n, err := h.rdb.HGet(ctx, h.key, h.token).Int()
		if errors.Is(err, redis.Nil) || err == nil && n <= s.entries {
			return nil
		}
		if err != nil {
			return err
		}
		return leave(ctx).Err()
	}
	s.again = func(ctx context.Context) (bool, error) {
		in, err := enter(ctx)
		if err != nil {
			return false, h.undone(ctx, err, false, undo)
		}
		return in, nil
	}
	s.first = s.again
	s.leave = func(ctx context.Context, last bool) error {
		if last {
			ends()
		}
		err := leave(ctx).Err()
		if errors.Is(err, redis.Nil) {
			err = ErrLost
		}
		return h.releases(1, err)
	}
	h.Abandon, h.take = ends, s.reentrantly
}

// stay is one holder's time with a reentrant lock, from its first entry to its
// last release.
type stay struct {
	*hold
	whole   Lease // what its entries have in common
	entries int

	first func(context.Context) (bool, error) // enters a free lock
	// Enters once more; false: the holder does not hold it any more.
	again func(context.Context) (bool, error)
	leave func(ctx context.Context, last bool) error // leaves once
}

// reentrantly takes the lock. A worker that holds it enters again; if it was lost,
// it starts as another holder.
func (s *stay) reentrantly(ctx context.Context) (bool, error) {
	if in := s.locker.in[s.key]; in != nil {
		held, err := in.again(ctx)
		switch {
		case err != nil:
			return false, fmt.Errorf("enter %s again: %w", s.key, err)
		case held:
			s.Lease = in.entry()
			return true, nil
		}
		delete(s.locker.in, s.key)
	}
	taken, err := s.first(ctx)
	if err != nil || !taken {
		return false, err
	}
	s.locker.in[s.key] = s
	s.whole = s.Lease
	s.Lease = s.entry()
	return true, nil
}

// entry is the lease of one more entry.
func (s *stay) entry() Lease {
	s.entries++
	left, lease := false, s.whole
	lease.Release = func(ctx context.Context) error {
		if left {
			return s.releases(0, nil)
		}
		left = true
		s.entries--
		if s.entries == 0 && s.locker.in[s.key] == s {
			delete(s.locker.in, s.key) // nobody enters this stay again, even if the release fails
		}
		// Once: after an error another one might leave the entry around this one.
		return s.leave(ctx, s.entries == 0)
	}
	lease.Abandon = func() { // the whole stay: the lock is one
		left = true
		if s.locker.in[s.key] == s {
			delete(s.locker.in, s.key)
		}
		s.whole.Leave()
	}
	return lease
}

// reentrantLocal is SET EX NX with a token (PX where TTL is not whole seconds). The
// holder counts its entries itself, so entering again sends nothing, and releases it by
// a compare-and-delete script.
//
// It is renewed only if asked (renewals=4), at most four times, by one of ten goroutines
// beside the holder: a script that compares the token and sets the expiry, then sleep for
// the whole TTL (renew=ttl). The first renewal comes at once, and is of no use. With
// renew-by=xx it does not compare: SET XX PX.
//
// What breaks it, and reentrant+watchdog corrects but for the lost reply:
//   - It expires whatever its holder does, after its last renewal at the latest, and the
//     holder does not notice (scenario stuck-goroutine): not even its release says so,
//     although it deletes nobody else's lock.
//   - It is renewed when it is about to expire, often too late; a shorter renew
//     corrects it. A renewal that failed is made again at once, again and
//     again, and is not counted.
//   - All locks of one Locker share one flag: the release of any ends the renewal of all,
//     unless another one is taken before the renewer that sleeps looks at the flag again.
//     Ten renewers that sleep renew no eleventh lock.
//   - Entering again succeeds although someone else holds the lock by then. With
//     reenter=set the expiry is gone: after a crash the lock is held for good.
//     reenter=keepttl keeps it, and like reenter=set overwrites what another holds.
//   - With renew-by=xx a late renewal overwrites the token of whoever holds the lock by
//     then, whose lock the release of the former holder then deletes (pause-release).
//   - It takes an error of the connection for a lock that somebody else holds, and tries
//     again until its time-out: also when the reply was lost and it waits for itself
//     (lost-acquire), unless lost-reply=released.
//
// Source: tutorials with a ThreadLocal count over a lock and a pool thread beside it;
// redis.io/commands/set (KEEPTTL).
func reentrantLocal() Kind {
	return opening(Polls(Kind{
		Name:         "reentrant-local",
		Summary:      "SET EX NX, entries counted by the client; renewed at most four times, if at all, at the last moment",
		Source:       "tutorials: ThreadLocal count and pool thread",
		Promises:     Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true},
		PromisesWith: func(v param.Values, p *Promises) { p.SurvivesCrash = v.Text(reenterParam) != bySet },
		Params: []param.Param{
			TTLParam, renewalsParam, localRenewParam, renewByParam, reenterParam, LostReplyParam, PollParam, TimeoutParam,
		},
		Check:    checkLocalRenewal,
		Variants: []string{":renewals=4", ":renewals=4:renew-by=" + renewByXX},
	}), func(l *locker) error {
		v := l.env.Params
		r := &localRenewals{
			steps: l.env.Steps, times: v.Count(renewalsParam), between: orDefault(v, localRenewParam, v.Duration(TTLParam)),
			busy: make(chan struct{}, renewers),
		}
		r.open, r.end = context.WithCancel(context.Background())
		l.fill, l.closers = r.fill, append(l.closers, r)
		return nil
	})
}

const (
	renewByXX = "xx"
	bySet     = "set"
	byKeepTTL = "keepttl"
)

var (
	renewalsParam   = param.Choice("renewals", "how often the lock is renewed before it runs out", "0", "1", "2", "3", "4")
	localRenewParam = param.Duration("renew", 0, time.Millisecond,
		"wait after each renewal; ttl: until the lock is about to expire").Or("ttl")
	renewByParam = param.Choice("renew-by",
		"what renews: a script that compares the token, or SET XX, which overwrites another holder's", "script", renewByXX)
	reenterParam = param.Choice("reenter",
		"what entering again sends: nothing, SET, which drops the expiry, or SET KEEPTTL", "nothing", bySet, byKeepTTL)
)

// checkLocalRenewal refuses a wait that is too long, and what only renewals need.
func checkLocalRenewal(v param.Values) error {
	if v.Count(renewalsParam) == 0 {
		for _, p := range []param.Param{localRenewParam, renewByParam} {
			if value := v.Text(p); value != p.Default {
				return fmt.Errorf("%s=%s is of no use without renewals: add renewals=4", p.Name, value)
			}
		}
	}
	ttl := v.Duration(TTLParam)
	if every := orDefault(v, localRenewParam, ttl); every > ttl {
		return fmt.Errorf("renew=%s is too late for a lock that expires after %s", every, ttl)
	}
	return nil
}

const renewers = 10 // how many locks of one worker are renewed at the same time

// localRenewals is what all locks of a worker have in common: the flag that ends
// their renewals, and who renews.
type localRenewals struct {
	steps   step.Observer
	times   int           // how often each lock is renewed
	between time.Duration // after each renewal

	flag    atomic.Bool     // raised whenever a lock is taken, lowered whenever one is released
	open    context.Context // ends with the Locker
	end     context.CancelFunc
	running sync.WaitGroup
	// Has an element for each renewer at work; what waits for one goes on in order.
	busy chan struct{}
}

func (r *localRenewals) fill(h *hold) {
	h.compared()
	if h.env.Params.Text(renewByParam) == renewByXX {
		h.renewedBySet("xx")
	}
	renew, reenter := h.Renew, h.env.Params.Text(reenterParam)
	h.Renew = nil
	s := &stay{hold: h}
	s.again = func(ctx context.Context) (bool, error) {
		args := map[string][]any{bySet: {"set", h.key, h.token}, byKeepTTL: {"set", h.key, h.token, "keepttl"}}[reenter]
		if args == nil {
			return true, nil
		}
		return true, h.rdb.Process(ctx, redis.NewStatusCmd(ctx, args...))
	}
	s.first = func(ctx context.Context) (bool, error) {
		taken, err := h.setEXNX(ctx, h.token)
		if taken && r.times > 0 {
			r.begin(renew)
		}
		var answered redis.Error
		if h.locker.keeps && ctx.Err() == nil && !errors.As(err, &answered) {
			err = nil // as published: no connection is a lock that somebody else holds
		}
		return taken, err
	}
	byScript := h.Release
	s.leave = func(ctx context.Context, last bool) error {
		if !last {
			return nil
		}
		r.flag.Store(false)
		if err := byScript(ctx); !errors.Is(err, ErrLost) {
			return err
		}
		return nil // as published
	}
	h.Abandon = func() { r.flag.Store(false) }
	h.take = s.reentrantly
}

// begin has a lease renewed beside its holder, who learns nothing of it.
func (r *localRenewals) begin(renew func(context.Context) error) {
	r.flag.Store(true)
	r.running.Go(func() {
		select {
		case r.busy <- struct{}{}:
			defer func() { <-r.busy }()
		case <-r.open.Done():
		}
		for done := 0; done < r.times && r.flag.Load() && r.open.Err() == nil; {
			if renew(r.open) != nil {
				continue // at once, and not counted
			}
			done++
			r.steps.At(r.open, step.Renewed)
			_ = backoff.Sleep(r.open, r.between, nil) // if r ends, so does the loop
		}
	})
}

// Close ends the renewals, and returns when none is under way.
func (r *localRenewals) Close() error {
	r.end()
	r.running.Wait()
	return nil
}

// redisson is the lock of the Redisson library: a hash of holder to entries,
// entered and left by script. A waiter sleeps until a message says that the lock is
// free, or for the TTL that its holder has left. All workers of a process share one
// subscription, and a message wakes one of them. A watchdog renews the lock for 30
// s every 10 s; with lease=5s there is none. Acquire and Try of a name by the
// Locker that holds it enter again.
//
// What breaks it:
//   - A holder that is paused for longer than the expiry writes although someone else
//     holds the lock, and the watchdog also renews for a holder that is stuck. It tells
//     nobody that a renewal has failed (redisson/redisson#4698).
//   - An entry whose reply was lost is counted, and once more when it is sent again, but
//     left once: the lock stays until it expires (lost-acquire, resent-acquire), unless
//     lost-reply=released, which the library lacks.
//   - Its release counts down before it deletes, which a server refuses whose
//     memory is full (oom).
//   - What is entered again after it has expired, as with reentrant.
//   - A lock that becomes free without a message (a key deleted by hand, a message
//     dropped) costs a waiter the TTL that the holder had left, up to 30 s. After a
//     broken subscription all waiters try again. Nobody stands in line: each process
//     wakes one waiter, of whom all but one find it taken.
//
// Source: Redisson 3.45.1, RedissonLock, LockRenewalScheduler; its wiki page
// "Distributed locks and synchronizers".
func redisson() Kind {
	takes, releases := script("redisson_take"), script("redisson_release")
	return subscribing(Kind{
		Name:    "redisson",
		Summary: "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:  "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:   "pub/sub, the holder's remaining TTL at the latest",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		},
		Params: []param.Param{redissonTTLParam, leaseParam, LostReplyParam, TimeoutParam},
		// The answer to the last release.
		Keys: func(key string) []string { return []string{key, key + ":released"} },
		// Not renewed; given back.
		Variants: []string{":lease=1s", ":lost-reply=" + lostReplyReleased},
	}, func(h *hold) {
		h.channel = h.key + ":freed"
		life := orDefault(h.env.Params, leaseParam, h.env.Params.Duration(redissonTTLParam))
		h.renewedBy(reentrantRenew, []string{h.key}, h.token, life.Milliseconds())
		leave := func(ctx context.Context) *redis.Cmd {
			return releases.Run(ctx, h.rdb, h.keys, h.token, life.Milliseconds(), h.channel, freed, rand.Text(),
				answerLife.Milliseconds())
		}
		endRenewals := func() {}
		enter := func(ctx context.Context) (bool, error) {
			asked := time.Now()
			left, err := takes.Run(ctx, h.rdb, []string{h.key}, h.token, life.Milliseconds()).Int64()
			if err != nil {
				return false, err
			}
			h.again = time.Duration(left) * time.Millisecond
			if left == 0 && h.env.Params.Text(leaseParam) == noLease {
				endRenewals()
				// It tells nobody of a loss.
				renewed := keepRenewing(&Lease{Renew: h.Renew}, asked, life/3, life, h.env.Steps)
				endRenewals = renewed.Abandon
			}
			return left == 0, nil
		}
		h.stayByScript(enter, leave, func() { endRenewals() })
	})
}

// redissonTTLParam is not TTLParam because its default is Redisson's lockWatchdogTimeout.
var redissonTTLParam = param.Duration("ttl", 30*time.Second, 10*time.Millisecond,
	"how long the lock outlives its holder; the watchdog renews it after each third of that").As(param.Lease)

const noLease = "none"

// leaseParam has no role: whoever gives it chooses another lock, without a watchdog.
var leaseParam = param.Duration("lease", 0, 10*time.Millisecond,
	"how long the lock is held at most; if given, there is no watchdog").Or(noLease)

// answerLife is how long the answer to a release is kept: Redisson's time-out
// and wait, as often as it tries.
const answerLife = 3 * (3*time.Second + 1500*time.Millisecond)

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

	"github.com/marketsim/marketsim/internal/locking"
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
	return polling(Kind{
		Name: "reentrant", Renews: true,
		Summary: "a hash of owner to entries, by script; each entry renews the expiry",
		Source:  "Redisson, RedissonLock",

		Promises: Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true},
		PromisesWith: func(v param.Values, p *Promises) {
			if v.Text(ownerParam) == ownerFixed {
				*p = Promises{Reentrant: true}
			}
		},
		Params:   []param.Param{TTLParam, ownerParam, locking.LostReplyParam, PollParam, TimeoutParam},
		Variants: []string{":owner=" + ownerFixed},
	}, func(h *hold) acquisition {
		if h.env.Params.Text(ownerParam) == ownerFixed {
			h.token = "thread-1"
		}
		return renewedEntry{&entry{hold: h, own: countedByServer{h, reentrantScripts{h}}}}
	})
}

var (
	reentrantEnter = script("reentrant_enter")
	reentrantLeave = script("reentrant_leave")
	reentrantRenew = script("reentrant_renew")
)

// reentrantScripts are the entryScripts of reentrant.
type reentrantScripts struct{ *hold }

func (r reentrantScripts) enterOnce(ctx context.Context) (bool, error) {
	command := "PEXPIRE"
	unit, n := r.expiry()
	if unit == "ex" {
		command = "EXPIRE"
	}
	return reentrantEnter.Run(ctx, r.rdb, []string{r.key}, r.token, command, n).Bool()
}

func (r reentrantScripts) leaveOnce(ctx context.Context) error {
	return reentrantLeave.Run(ctx, r.rdb, []string{r.key}, r.token).Err()
}

func (r reentrantScripts) renew(ctx context.Context) error {
	return r.renewBy(ctx, reentrantRenew, []string{r.key}, r.token, r.ttl().Milliseconds())
}

func (reentrantScripts) endRenewals() {}

const ownerFixed = "fixed"

var ownerParam = param.OneOf("owner", "the holder's name: a random one, or the same for all", "random", ownerFixed)

// An entry is an acquisition of a reentrant lock: a worker that holds the lock enters it
// again.
type entry struct {
	*hold
	own  reentrance // of the stay that begins if the worker is not in
	stay *stay      // in which this is an entry, once it is
	left bool
}

// renewedEntry is the entry of a lock that can be renewed.
type renewedEntry struct{ *entry }

func (e renewedEntry) renew(ctx context.Context) error { return e.stay.renew(ctx) }

// stay is one holder's time with a reentrant lock, from its first entry to its
// last release.
type stay struct {
	reentrance
	entries int
}

// A reentrance is how one holder enters and leaves a reentrant lock.
type reentrance interface {
	// enter enters once more, after so many entries. 0: it enters a lock that may be
	// free. Otherwise false means that the holder does not hold it any more.
	enter(ctx context.Context, entries int) (bool, error)
	undo(context.Context) error // as that of acquisition
	leave(ctx context.Context, last bool) error
	renew(context.Context) error
	abandon()
}

// take takes the lock. A worker that holds it enters again; if it was lost, it starts as
// another holder.
func (e *entry) take(ctx context.Context) (bool, error) {
	if in := e.locker.stays[e.key]; in != nil {
		held, err := in.enter(ctx, in.entries)
		if err != nil {
			return false, fmt.Errorf("enter %s again: %w", e.key, err)
		}
		if held {
			e.count(in)
			return true, nil
		}
		delete(e.locker.stays, e.key)
	}

	taken, err := e.own.enter(ctx, 0)
	if err != nil || !taken {
		return false, err
	}
	begun := &stay{reentrance: e.own}
	e.locker.stays[e.key] = begun
	e.count(begun)
	return true, nil
}

func (e *entry) count(in *stay) {
	in.entries++
	e.stay = in
}

func (e *entry) undo(ctx context.Context) error { return e.own.undo(ctx) }

// release leaves once. After an error it does nothing more: leaving again might leave the
// entry around this one.
func (e *entry) release(ctx context.Context) error {
	if e.left {
		return e.releases(0, nil)
	}
	e.left = true
	e.stay.entries--
	last := e.stay.entries == 0
	if last {
		e.endStay() // even if the release fails
	}
	return e.stay.leave(ctx, last)
}

// abandon abandons the whole stay: the lock is one.
func (e *entry) abandon() {
	e.left = true
	e.endStay()
	e.stay.abandon()
}

// endStay has nobody enter this stay again.
func (e *entry) endStay() {
	if e.locker.stays[e.key] == e.stay {
		delete(e.locker.stays, e.key)
	}
}

// countedByServer is the reentrance of a lock that counts entries by scripts, in a hash of
// the holder's token to their number.
type countedByServer struct {
	*hold
	entryScripts
}

// entryScripts are the commands of a lock that is countedByServer.
type entryScripts interface {
	enterOnce(context.Context) (bool, error) // if nobody else is in
	leaveOnce(context.Context) error         // redis.Nil: the holder was not in
	renew(context.Context) error
	endRenewals() // before the lock is left for the last time, or abandoned
}

func (c countedByServer) enter(ctx context.Context, entries int) (bool, error) {
	in, err := c.enterOnce(ctx)
	if err == nil {
		return in, nil
	}
	uncount := func(ctx context.Context) error { return c.leaveUncounted(ctx, entries) }
	return false, c.undone(ctx, err, false, uncount)
}

// leaveUncounted leaves once if the server has counted an entry whose reply was lost.
func (c countedByServer) leaveUncounted(ctx context.Context, entries int) error {
	counted, err := c.rdb.HGet(ctx, c.key, c.token).Int()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return err
	case counted <= entries:
		return nil
	}
	return c.leaveOnce(ctx)
}

func (c countedByServer) leave(ctx context.Context, last bool) error {
	if last {
		c.endRenewals()
	}
	err := c.leaveOnce(ctx)
	if errors.Is(err, redis.Nil) {
		err = ErrLost
	}
	return c.releases(1, err)
}

func (c countedByServer) abandon() { c.endRenewals() }

// reentrantLocal is SET EX NX with a token (PX where TTL is not whole seconds). The
// holder counts its entries itself, so entering again sends nothing, and releases it by
// a compare-and-delete script.
//
// With renewals=4 it is renewed at most four times, by a goroutine beside the holder: a
// script compares the token and sets the expiry. The first renewal comes at once, when it
// is of no use, and each other one a whole TTL after the one before (renew=ttl). Ten
// goroutines renew the locks of a worker. With renew-by=xx they send SET XX PX, which
// does not compare.
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
	return opening(polls(Kind{
		Name:    "reentrant-local",
		Summary: "SET EX NX, entries counted by the client; renewed at most four times, if at all, at the last moment",
		Source:  "tutorials: ThreadLocal count and pool thread",

		Promises:     Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true},
		PromisesWith: func(v param.Values, p *Promises) { p.SurvivesCrash = v.Text(reenterParam) != bySet },
		Params: []param.Param{
			TTLParam, renewalsParam, localRenewParam, renewByParam, reenterParam,
			locking.LostReplyParam, PollParam, TimeoutParam,
		},
		Check:    checkLocalRenewal,
		Variants: []string{":renewals=4", ":renewals=4:renew-by=" + renewByXX},
	}), func(l *locker) (newAcquisition, error) {
		v := l.env.Params
		r := &localRenewals{
			steps:   l.env.Steps,
			times:   v.Count(renewalsParam),
			between: orDefault(v, localRenewParam, v.Duration(TTLParam)),
			busy:    make(chan struct{}, renewers),
		}
		r.open, r.end = context.WithCancel(context.Background())

		l.closers = append(l.closers, r)
		return func(h *hold) acquisition {
			return &entry{hold: h, own: countedLocally{compared: compared{h}, renewals: r}}
		}, nil
	})
}

const (
	renewByXX = "xx"
	bySet     = "set"
	byKeepTTL = "keepttl"
)

var (
	renewalsParam   = param.OneOf("renewals", "how often the lock is renewed before it runs out", "0", "1", "2", "3", "4")
	localRenewParam = param.Duration("renew", 0, time.Millisecond,
		"wait after each renewal; ttl: until the lock is about to expire").Or("ttl")
	renewByParam = param.OneOf("renew-by",
		"what renews: a script that compares the token, or SET XX, which overwrites another holder's", "script", renewByXX)
	reenterParam = param.OneOf("reenter",
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

// countedLocally is the reentrance of reentrant-local: the client counts its entries.
type countedLocally struct {
	compared
	renewals *localRenewals
}

func (c countedLocally) enter(ctx context.Context, entries int) (bool, error) {
	if entries > 0 {
		return true, c.enterAgain(ctx)
	}

	taken, err := c.setEXNX(ctx, c.token)
	if taken && c.renewals.times > 0 {
		c.renewals.begin(c)
	}
	var answered redis.Error
	if c.locker.keepsTaken && ctx.Err() == nil && !errors.As(err, &answered) {
		err = nil // as published: no connection is a lock that somebody else holds
	}
	return taken, err
}

func (c countedLocally) enterAgain(ctx context.Context) error {
	switch c.env.Params.Text(reenterParam) {
	case bySet:
		return c.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", c.key, c.token))
	case byKeepTTL:
		return c.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", c.key, c.token, "keepttl"))
	}
	return nil
}

func (c countedLocally) leave(ctx context.Context, last bool) error {
	if !last {
		return nil
	}
	c.renewals.flag.Store(false)
	err := c.release(ctx)
	if errors.Is(err, ErrLost) {
		return nil // as published
	}
	return err
}

func (c countedLocally) renew(ctx context.Context) error {
	if c.env.Params.Text(renewByParam) == renewByXX {
		return c.renewBySet(ctx, "xx")
	}
	return c.compared.renew(ctx)
}

func (c countedLocally) abandon() { c.renewals.flag.Store(false) }

// begin has a lock renewed beside its holder, who learns nothing of it.
func (r *localRenewals) begin(held renewer) {
	r.flag.Store(true)
	r.running.Go(func() {
		select {
		case r.busy <- struct{}{}:
			defer func() { <-r.busy }()
		case <-r.open.Done():
		}

		for done := 0; done < r.times && r.flag.Load() && r.open.Err() == nil; {
			if held.renew(r.open) != nil {
				continue // at once, and not counted
			}
			done++
			r.steps.At(r.open, step.Renewed)
			_ = locking.Sleep(r.open, r.between, nil) // if r ends, so does the loop
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
	return subscribing(Kind{
		Name:    "redisson",
		Summary: "reentrant script lock that publishes its release, with a watchdog of its own unless a lease is given",
		Source:  "Redisson RLock; its wiki, \"Distributed locks\"",
		Wakes:   "pub/sub, the holder's remaining TTL at the latest",

		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		},
		Params: []param.Param{redissonTTLParam, leaseParam, locking.LostReplyParam, TimeoutParam},
		// The answer to the last release.
		Keys: func(key string) []string { return []string{key, key + ":released"} },
		// Not renewed; given back.
		Variants: []string{":lease=1s", ":lost-reply=" + locking.LostReplyReleased},
	}, func(h *hold) acquisition {
		h.channel = h.key + ":freed"

		own := countedByServer{h, &redissonScripts{hold: h}}
		return renewedEntry{&entry{hold: h, own: own}}
	})
}

var (
	redissonTake    = script("redisson_take")
	redissonRelease = script("redisson_release")
)

// redissonScripts are the entryScripts of redisson, and its watchdog.
type redissonScripts struct {
	*hold
	watchdog *Lease // whose Abandon ends it; nil: there is none
}

// life is for how long the lock is taken or renewed.
func (r *redissonScripts) life() time.Duration {
	return orDefault(r.env.Params, leaseParam, r.env.Params.Duration(redissonTTLParam))
}

func (r *redissonScripts) enterOnce(ctx context.Context) (bool, error) {
	asked := time.Now()
	left, err := redissonTake.Run(ctx, r.rdb, []string{r.key}, r.token, r.life().Milliseconds()).Int64()
	if err != nil {
		return false, err
	}
	r.retryIn = time.Duration(left) * time.Millisecond
	if left != 0 {
		return false, nil
	}

	if r.env.Params.Text(leaseParam) == noLease {
		r.endRenewals()
		// It tells nobody of a loss.
		r.watchdog = keepRenewing(&Lease{Renew: r.renew}, asked, r.life()/3, r.life(), r.env.Steps)
	}
	return true, nil
}

func (r *redissonScripts) leaveOnce(ctx context.Context) error {
	return redissonRelease.Run(ctx, r.rdb, r.keys, r.token, r.life().Milliseconds(), r.channel, freed, rand.Text(),
		answerLife.Milliseconds()).Err()
}

func (r *redissonScripts) renew(ctx context.Context) error {
	return r.renewBy(ctx, reentrantRenew, []string{r.key}, r.token, r.life().Milliseconds())
}

func (r *redissonScripts) endRenewals() {
	if r.watchdog != nil {
		r.watchdog.Abandon()
	}
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

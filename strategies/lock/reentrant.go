package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
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

		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
			Reentrant: true,
		},
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
// last release. The worker alone counts its entries, without a lock; only renew is called by
// other goroutines.
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
// another holder. An error of entering again leaves the stay, and its count, as they were.
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
	uncount := func(ctx context.Context) error {
		return c.leaveUncounted(ctx, entries)
	}
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

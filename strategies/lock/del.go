package lock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// The locks of this file are released by DEL, whoever holds the key by then.
// set-px is what corrects them.

// existsSet is the lock that everybody thinks of first: EXISTS, and if there is
// no key, SET; released by DEL.
//
// What breaks it: two workers that read at the same time both find it free and hold it
// (scenario expired-race). The first to finish frees it for a third, because DEL does not
// check whose lock it deletes. It never expires: a holder that dies holds it for good,
// and so does one whose reply to SET was lost (lost-acquire). Source: what the SETNX
// command was made to replace; still found in tutorials and reviews.
func existsSet() Kind {
	return polling(Kind{
		Name:     "exists-set",
		Summary:  "WRONG: EXISTS, then SET, then DEL; two who look at the same time both hold it",
		Source:   "the first idea; SETNX was made to replace it",
		Promises: Promises{ClockIndependent: true},
		Params:   []param.Param{locking.LostReplyParam, PollParam, TimeoutParam},
	}, func(h *hold) acquisition { return existsSetLock{deleted{h}} })
}

type existsSetLock struct{ deleted }

func (l existsSetLock) take(ctx context.Context) (bool, error) {
	held, err := l.rdb.Exists(ctx, l.key).Result()
	if err != nil || held > 0 {
		return false, err
	}

	l.env.Steps.At(ctx, step.Looked)
	if err := l.rdb.Set(ctx, l.key, anybody, 0).Err(); err != nil {
		// If someone else took the lock meanwhile, this frees theirs. Without it,
		// our own stays for good.
		return false, l.undone(ctx, err, false, l.del)
	}
	return true, nil
}

// setNXFixed is the shortest lock of all: SETNX key 1, and DEL. In the articles a loser
// gives up at once, as Try does.
//
// What breaks it: it never expires, so a holder that dies holds it for good (scenario
// crash-holding). The key does not say whose it is: nobody can give back a lock whose
// reply was lost (lost-acquire), and whoever deletes the key of a holder that looks dead
// lets in a second worker, and the first one's DEL a third. Source: articles that explain
// SETNX by a lock; redis.io/commands/setnx advises SET instead.
func setNXFixed() Kind {
	return polling(Kind{
		Name:     "setnx-fixed",
		Summary:  "WRONG: SETNX key 1, released by DEL; a dead holder holds it for good, anybody can free it",
		Source:   "articles that explain SETNX by a lock",
		Promises: Promises{Exclusive: true, ClockIndependent: true},
		Params:   []param.Param{PollParam, TimeoutParam},
	}, func(h *hold) acquisition { return setNXFixedLock{deleted{h}} })
}

type setNXFixedLock struct{ deleted }

func (l setNXFixedLock) take(ctx context.Context) (bool, error) { return l.setNX(ctx, anybody) }

// setExFixed is the short form of SET's page: SET key 1 EX NX (PX where TTL is not
// whole seconds), released by DEL.
//
// What breaks it: the key does not say whose it is. A holder whose lease has expired
// releases the lock of the next one (scenario pause-release), beside which a third then
// holds it. An acquisition whose reply is lost gives nothing back. Source:
// redis.io/commands/set, "Patterns", before it is made "more robust".
func setExFixed() Kind {
	return polling(Kind{
		Name:     "set-ex-fixed",
		Summary:  "WRONG: SET key 1 EX NX, released by DEL; a late holder deletes the lock of the next",
		Source:   "redis.io/commands/set, the form without a token",
		Promises: Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, PollParam, TimeoutParam},
	}, func(h *hold) acquisition { return setExFixedLock{deleted{h}} })
}

type setExFixedLock struct{ deleted }

func (l setExFixedLock) take(ctx context.Context) (bool, error) { return l.setEXNX(ctx, anybody) }

// setExCompare is set-ex-fixed with a random token in the key. Its holder
// releases it by GET, compare, DEL.
//
// What breaks it: if the lease expires between GET and DEL and the next worker takes the
// lock, the DEL deletes that worker's lock (scenario pause-in-release). set-px does both
// in one script, setnx under WATCH. An acquisition whose reply was lost keeps the lock
// until it expires (lost-acquire), unless lost-reply=released. Source: articles that stop
// one step before the script of redis.io/commands/set.
func setExCompare() Kind {
	return polling(Kind{
		Name:     "set-ex-compare",
		Summary:  "WRONG: SET EX NX with a token, released by GET, compare, DEL; it can expire in between",
		Source:   "articles that stop before the release script",
		Promises: Promises{Exclusive: true, SurvivesCrash: true, ClockIndependent: true},
		Params:   []param.Param{TTLParam, locking.LostReplyParam, PollParam, TimeoutParam},
	}, func(h *hold) acquisition { return setExCompareLock{h} })
}

type setExCompareLock struct{ *hold }

func (l setExCompareLock) take(ctx context.Context) (bool, error) { return l.setEXNX(ctx, l.token) }

func (l setExCompareLock) undo(ctx context.Context) error { return l.release(ctx) }

// release is GET and DEL, which deletes another's lock if this one expires in between.
func (l setExCompareLock) release(ctx context.Context) error {
	if err := l.mine(ctx, l.rdb); err != nil {
		return l.releases(0, err)
	}
	l.env.Steps.At(ctx, step.Looked)
	return l.del(ctx)
}

// getSet keeps in the key the time at which the lock ends, by its holder's clock: SETNX
// of that time. A waiter that finds the time past replaces it by GETSET, and holds the
// lock if GETSET returns the time that it had read. A release is DEL; with
// release=in-time a holder whose time is past, by its own clock, leaves the key.
//
// What breaks it:
//   - Clocks. A client whose clock is ahead finds that a live lock has ended, and takes
//     it (scenario clock-ahead).
//   - Waiters that come too late for a lock that has ended replace its new holder's
//     time by theirs. If theirs is earlier, because of a clock again, the holder loses
//     the lock before its time.
//   - A waiter that finds the time past just when the lock is released puts its time into
//     a lock that nobody holds.
//   - No owner. A late holder deletes the lock of the next one (pause-release), with
//     release=in-time if it is paused between reading its clock and DEL
//     (pause-in-release). A lost reply leaves the lock (lost-acquire).
//
// Source: articles after redis.io/commands/setnx, "Design pattern: locking with
// SETNX", which has release=in-time.
func getSet() Kind {
	return polling(Kind{
		Name:     "getset",
		Summary:  "WRONG: SETNX of an end by the client's clock, taken over by GETSET; clocks and losers break it",
		Source:   "redis.io/commands/setnx",
		Promises: Promises{Exclusive: true, SurvivesCrash: true},
		PromisesWith: func(v param.Values, p *Promises) {
			p.Exclusive = v.Text(getSetTakeoverParam) != takeoverDel
		},
		Params:   []param.Param{TTLParam, getSetReleaseParam, getSetTakeoverParam, PollParam, TimeoutParam},
		Variants: []string{":release=" + releaseInTime, ":takeover=" + takeoverDel},
	}, func(h *hold) acquisition { return &getSetLock{hold: h} })
}

const (
	releaseInTime = "in-time"
	takeoverDel   = "del"
)

var (
	getSetTakeoverParam = param.OneOf("takeover",
		"how a waiter takes a lock whose time is past: getset, or DEL and SETNX, which several can do (del)",
		"getset", takeoverDel)
	getSetReleaseParam = param.OneOf("release",
		"who deletes the key: a holder that is late too (always), or only one whose time is not past (in-time)",
		"always", releaseInTime)
)

type getSetLock struct {
	*hold
	end int64 // in ms, by this client's clock
}

func (l *getSetLock) take(ctx context.Context) (bool, error) {
	// The value is when the lock ends, by the clock of whoever has set it. One reading serves the
	// whole attempt: to scenario clock-set-back a second would be of a clock that was set back.
	now := l.env.Now()
	l.end = now.Add(l.ttl()).UnixMilli()
	if taken, err := l.setNX(ctx, l.end); taken || err != nil {
		return taken, err
	}

	held, err := l.rdb.Get(ctx, l.key).Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, err
	case held >= now.UnixMilli():
		return false, nil
	}

	// Others may have seen the same past end, and be here, too.
	l.env.Steps.At(ctx, step.Looked)
	if l.env.Params.Text(getSetTakeoverParam) == takeoverDel {
		if err := l.rdb.Del(ctx, l.key).Err(); err != nil {
			return false, err
		}
		return l.setNX(ctx, l.end)
	}
	return l.replace(ctx, held)
}

// replace takes over a lock that has ended. It reports whether the lock had the end that
// was read: otherwise another waiter was faster.
func (l *getSetLock) replace(ctx context.Context, read int64) (bool, error) {
	cmd := redis.NewStringCmd(ctx, "getset", l.key, l.end)
	if err := l.rdb.Process(ctx, cmd); errors.Is(err, redis.Nil) {
		// It was released meanwhile; now the key holds a time, and nobody
		// holds the lock.
		return false, nil
	}
	replaced, err := cmd.Int64()
	return err == nil && replaced == read, err
}

func (l *getSetLock) release(ctx context.Context) error {
	if l.env.Params.Text(getSetReleaseParam) == releaseInTime {
		if l.env.Now().UnixMilli() >= l.end {
			return l.releases(0, nil)
		}
		l.env.Steps.At(ctx, step.Looked)
	}
	return l.del(ctx)
}

const anybody = "1" // what the key of a lock without an owner holds

// deleted is the release of a lock without an owner: DEL, whoever holds it.
type deleted struct{ *hold }

func (d deleted) release(ctx context.Context) error { return d.del(ctx) }

// del is a release by DEL, whoever holds the lock.
func (h *hold) del(ctx context.Context) error { return h.releases(h.rdb.Del(ctx, h.key).Result()) }

func (h *hold) setNX(ctx context.Context, value any) (bool, error) {
	cmd := redis.NewBoolCmd(ctx, "setnx", h.key, value)
	err := h.rdb.Process(ctx, cmd)
	return cmd.Val(), err
}

// setEXNX is SET EX NX, or SET PX NX for a TTL that is not whole seconds.
func (h *hold) setEXNX(ctx context.Context, value string) (bool, error) {
	unit, n := h.expiry()
	return wasSet(h.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", h.key, value, unit, n, "nx")))
}

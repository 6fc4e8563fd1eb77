package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// reentrant is a hash of its holder to how often that has entered, with an expiry that each entry renews. One script
// enters; one leaves, and answers: not yours, still held, or freed. It promises that only its holder releases it, that
// a crashed holder does not hold it for good, and that its holder can enter again.
//
// The holder is a random token that a worker makes when it enters a free lock, and drops when it has left it. While it
// is in, Acquire and Try of the same name by the same Locker enter again, just as Reenter does. Once the lock has
// expired, Reenter returns ErrLost, and Acquire and Try start with another token, so that an older lease can neither
// release nor renew what is held now.
//
// What breaks it: a holder that is paused for longer than the expiry, as with set-px. And if one worker does two things
// at a time, the lock does not separate them: it lets both in.
//
// Source: Redisson, RedissonLock (the hash and the scripts); java.util.concurrent, ReentrantLock.
func reentrant() Kind {
	k := Kind{
		Name:    "reentrant",
		Summary: "a hash of owner to entries, by script; each entry renews the expiry",
		Source:  "Redisson, RedissonLock",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		},
		Params: []param.Param{TTLParam, PollParam, TimeoutParam},
		Renews: true,
	}
	k = Polls(k)
	k.New = func(env Env) (Locker, error) {
		in := map[string]*stay{}
		return newPolled(env, k.Promises, func(l redisLease) grant {
			return &reentrantLease{stay: &stay{redisLease: l}, in: in}
		}), nil
	}
	return k
}

var (
	//go:embed reentrant_enter.lua
	reentrantEnterText string
	//go:embed reentrant_leave.lua
	reentrantLeaveText string
	//go:embed reentrant_renew.lua
	reentrantRenewText string

	reentrantEnter = redis.NewScript(reentrantEnterText)
	reentrantLeave = redis.NewScript(reentrantLeaveText)
	reentrantRenew = redis.NewScript(reentrantRenewText)
)

// reentrantLease is one entry.
type reentrantLease struct {
	*stay
	in   map[string]*stay // the locks that this worker holds, by key
	left bool
}

// take implements grant.
func (l *reentrantLease) take(ctx context.Context) (bool, error) {
	if in := l.in[l.key]; in != nil {
		err := in.enter(ctx)
		if err == nil {
			l.stay = in
		}
		if !errors.Is(err, ErrLost) {
			return err == nil, err
		}
		delete(l.in, l.key)
	}
	err := l.enter(ctx)
	if err == nil {
		l.in[l.key] = l.stay
	}
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Reenter implements Reentrant.
func (l *reentrantLease) Reenter(ctx context.Context) (Lease, error) {
	err := ErrLost
	if !l.left {
		err = l.enter(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("enter %s again: %w", l.key, err)
	}
	return &reentrantLease{stay: l.stay, in: l.in}, nil
}

// Release implements Lease. Whether a release that failed has left the entry is not known. Another one might leave the
// entry around this one, so it is not sent.
func (l *reentrantLease) Release(ctx context.Context) error {
	if l.left {
		return l.releases(0, nil)
	}
	l.left = true
	err := l.leave(ctx)
	if l.entries == 0 && l.in[l.key] == l.stay {
		delete(l.in, l.key)
	}
	return l.releases(1, err)
}

// stay is one holder's time with the lock, from its first entry to its last release.
type stay struct {
	redisLease
	entries int
}

// enter enters once more. It returns ErrHeld when someone else holds the lock, and ErrLost when the holder that entered
// before does not hold it any more.
func (s *stay) enter(ctx context.Context) error {
	which, refusal := "first", ErrHeld
	if s.entries > 0 {
		which, refusal = "again", ErrLost
	}
	n, err := reentrantEnter.Run(ctx, s.rdb, []string{s.key}, s.token, s.ttl().Milliseconds(), which).Int()
	switch {
	case err != nil:
		return Abandon(ctx, err, s.undo)
	case n == 0:
		return refusal
	}
	s.entries++
	return nil
}

// undo leaves once if the server has counted an entry whose reply was lost.
func (s *stay) undo(ctx context.Context) error {
	n, err := s.rdb.HGet(ctx, s.key, s.token).Int()
	if errors.Is(err, redis.Nil) || err == nil && n <= s.entries {
		return nil
	}
	if err != nil {
		return err
	}
	return reentrantLeave.Run(ctx, s.rdb, []string{s.key}, s.token).Err()
}

func (s *stay) leave(ctx context.Context) error {
	s.entries--
	n, err := reentrantLeave.Run(ctx, s.rdb, []string{s.key}, s.token).Int()
	if err == nil && n < 0 {
		return ErrLost
	}
	return err
}

// Renew implements Renewer, for all entries.
func (s *stay) Renew(ctx context.Context) error {
	return s.background.renew(ctx, reentrantRenew, []string{s.key}, s.token, s.ttl().Milliseconds())
}

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/strategies/param"
)

// reentrant is a hash of its holder to how often that has entered, with an expiry that each entry renews. One script
// enters, one leaves and answers: not yours, still held, or freed. It promises that only its holder releases it, that a
// crashed holder does not hold it for good, and that its holder can enter again.
//
// The holder is a random token that a worker makes when it enters a free lock, and forgets when it has left it. While it
// is in, Acquire and Try of the same name by the same Locker enter again, just as Reenter does. Once the lock has
// expired, Reenter says so (ErrLost), and Acquire and Try start afresh under another token, so that what was acquired
// before can neither release nor renew what is held now.
//
// What breaks it: a holder that is paused for longer than the expiry, as with set-px. And it does not keep apart what
// one worker does twice at a time: both are let in.
//
// Source: Redisson, RedissonLock (the hash and the scripts); java.util.concurrent, ReentrantLock.
func reentrant() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true}
	return Kind{
		Name:     "reentrant",
		Summary:  "a hash of owner to entries, by script; each entry renews the expiry",
		Source:   "Redisson, RedissonLock",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, pollParam, timeoutParam},
		Renews:   true,
		New: func(env Env) (Locker, error) {
			background, holds := newBackground(env), map[string]*hold{}
			return &polled{
				poller: newPoller(env), promises: promises, close: background.Close,
				grant: func(name string) grant {
					return &reentrantLease{holds: holds, hold: newHold(env, background, name)}
				},
			}, nil
		},
	}
}

// reentrantLease is one entry.
type reentrantLease struct {
	unaware
	*hold
	holds map[string]*hold // what this worker is in, by key
	left  bool
}

// take implements grant.
func (l *reentrantLease) take(ctx context.Context) (bool, error) {
	if in := l.holds[l.key]; in != nil {
		err := in.enter(ctx)
		if err == nil {
			l.hold = in
		}
		if !isLost(err) {
			return err == nil, err
		}
		delete(l.holds, l.key)
	}
	err := l.enter(ctx)
	if err == nil {
		l.holds[l.key] = l.hold
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
	return &reentrantLease{hold: l.hold, holds: l.holds}, nil
}

// Release implements Lease. What became of one that failed is not known, and a second one could free the entry around
// this one: it is not sent.
func (l *reentrantLease) Release(ctx context.Context) error {
	if l.left {
		return releaseError(l.key, ErrLost)
	}
	l.left = true
	err := l.leave(ctx)
	if l.entries == 0 && l.holds[l.key] == l.hold {
		delete(l.holds, l.key)
	}
	return releaseError(l.key, err)
}

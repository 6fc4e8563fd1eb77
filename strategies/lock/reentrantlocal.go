package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

// reentrantLocal is SET EX NX with a token (PX for a TTL that is not whole seconds) whose entries the holder counts
// itself: entering again sends nothing. In the background it is renewed, a bounded number of times so that a stuck
// holder does not hold it for good; released by a compare-and-delete script. Acquire and Try by the Locker that holds it
// enter again, just as Reenter does. It promises that only its holder releases it, that a crashed holder does not hold
// it for good, and that its holder can enter again.
//
// What breaks it: after its last renewal it runs out, whatever its holder does, and nothing tells the holder. Nor does
// entering again, which asks nobody: it succeeds although someone else holds the lock by then. While it is still
// renewed, a loss is noticed.
//
// Source: tutorials that put a ThreadLocal count over a lock that is not reentrant, and a daemon thread beside it.
func reentrantLocal() Kind {
	promises := Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true}
	return Kind{
		Name:     "reentrant-local",
		Summary:  "SET EX NX, the entries counted by the client, renewed a bounded number of times",
		Source:   "tutorials: ThreadLocal count and daemon thread",
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, renewalsParam, renewParam, pollParam, timeoutParam},
		Check:    checkRenewal,
		New: func(env Env) (Locker, error) {
			background, holds := newBackground(env), map[string]*localHold{}
			return &polled{
				poller: newPoller(env), promises: promises, close: background.Close,
				grant: func(name string) grant {
					return &localLease{env: env, background: background, holds: holds, key: env.Key(name)}
				},
			}, nil
		},
	}
}

var renewalsParam = param.Count("renewals", 4, 1, "how often the lock is renewed before it runs out")

// localHold is one holder's time with the lock, from its first entry to its last release.
type localHold struct {
	lease   *renewing
	entries int
}

// localLease is one entry.
type localLease struct {
	hold       *localHold
	env        Env
	background *background
	holds      map[string]*localHold // what this worker is in, by key
	key        string
	left       bool
}

// take implements grant.
func (l *localLease) take(ctx context.Context) (bool, error) {
	if in := l.holds[l.key]; in != nil && in.lease.Context().Err() == nil {
		l.hold = in
		in.entries++
		return true, nil
	}
	ttl := l.env.Params.Duration(ttlParam)
	lease := &setPXLease{
		env: l.env, background: l.background, key: l.key, token: newToken(), ttl: ttl, expiry: "px",
	}
	if wholeSeconds(ttl) {
		lease.expiry = "ex"
	}
	asked := time.Now()
	if taken, err := lease.take(ctx); !taken {
		return false, err
	}
	renewed := keepRenewing(lease, asked, renewal(l.env.Params), ttl, l.env.Params.Count(renewalsParam), l.env.Steps)
	l.hold = &localHold{lease: renewed, entries: 1}
	l.holds[l.key] = l.hold
	return true, nil
}

// Context implements Lease.
func (l *localLease) Context() context.Context { return l.hold.lease.Context() }

// Reenter implements Reentrant.
func (l *localLease) Reenter(context.Context) (Lease, error) {
	if l.left || l.Context().Err() != nil {
		return nil, fmt.Errorf("enter %s again: %w", l.key, ErrLost)
	}
	again := *l
	again.hold.entries++
	return &again, nil
}

// Release implements Lease.
func (l *localLease) Release(ctx context.Context) error {
	if l.left {
		return releaseError(l.key, ErrLost)
	}
	l.left = true
	if l.hold.entries--; l.hold.entries > 0 {
		return nil
	}
	if l.holds[l.key] == l.hold {
		delete(l.holds, l.key)
	}
	return l.hold.lease.Release(ctx)
}

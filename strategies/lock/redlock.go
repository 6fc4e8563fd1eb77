package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

// redlock takes the same key with the same random token on N independent masters, one after the other: SET NX PX with a
// time-out a node that is far below the TTL. The lock is held when a majority (N/2+1) has granted it and some of its
// validity is left: TTL - time taken - drift, where drift is 1% of the TTL + 2 ms for clocks that run at different
// rates. Otherwise it is given back on every node, also on those that refused or did not answer, and tried again after
// a random delay. It is released on every node by compare-and-delete.
//
// It promises that only its holder releases it, that a crashed holder does not hold it for good, and that it works on
// while a minority of the nodes is down. A lease's context ends with the lock's validity, by the client's monotonic
// clock: clients' wall clocks do not matter. A loss before that goes unnoticed until a renewal or the release.
//
// What breaks it: the servers' clocks. A node whose clock jumps ahead, or one that restarts without its data, forgets
// the lock, and a second client can find a majority while the first holds one. A holder that is paused between a look at
// its context and its write writes too late, as with every lock that has a TTL, and there is no fencing token to stop
// it. A command that timed out may still run when its node wakes up; the key then stays for a TTL. Two clients who come
// at once can split the nodes between them, and none gets the lock.
//
// Source: redis.io, "Distributed Locks with Redis".
func redlock() Kind {
	promises := Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
		SurvivesNodeLoss: true, NoticesLoss: true,
	}
	return Kind{
		Name:     "redlock",
		Summary:  "SET NX PX on a majority of independent masters; valid for the TTL less the time taken and drift",
		Source:   `redis.io, "Distributed Locks with Redis"`,
		Wakes:    "poll",
		Promises: promises,
		Params:   []param.Param{ttlParam, nodeTimeoutParam, randomPollParam, timeoutParam},
		Check:    checkNodeTimeout,
		Needs:    NeedsMasters,
		Renews:   true,
		New: func(env Env) (Locker, error) {
			if n := len(env.Servers.Masters); n < 3 || n%2 == 0 {
				return nil, fmt.Errorf("%w: redlock needs an odd number of independent Redis masters, three or more, and there are %d",
					ErrServers, n)
			}
			timeout := env.Params.Duration(nodeTimeoutParam)
			nodes, beside := newMasters(env.Servers.Masters, timeout), newMasters(env.Servers.Masters, timeout)
			poller := newPoller(env)
			poller.random = true
			return &polled{
				poller: poller, promises: promises,
				grant: func(name string) grant {
					return &redlockLease{
						nodes: nodes, beside: beside, key: env.Key(name), token: newToken(), ttl: env.Params.Duration(ttlParam),
					}
				},
				close: func() error { return errors.Join(nodes.Close(), beside.Close()) },
			}, nil
		},
	}
}

var (
	nodeTimeoutParam = param.Duration("node-timeout", 50*time.Millisecond, time.Millisecond,
		"how long one master may take to answer, at most a quarter of ttl")
	randomPollParam = param.Param{
		Name: pollParam.Name, Default: pollParam.Default, Normalize: pollParam.Normalize,
		Summary: "mean wait between two attempts, each random between nothing and twice that",
	}
)

// checkNodeTimeout keeps a few silent nodes from using up the validity.
func checkNodeTimeout(v param.Values) error {
	if ttl, timeout := v.Duration(ttlParam), v.Duration(nodeTimeoutParam); 4*timeout > ttl {
		return fmt.Errorf("node-timeout is %s, and it must not be longer than a quarter of ttl, %s", timeout, ttl)
	}
	return nil
}

type redlockLease struct {
	nodes      masters // the worker's
	beside     masters // for renewals
	key, token string
	ttl        time.Duration
	valid      *validity
}

// take implements grant.
func (l *redlockLease) take(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	start := time.Now()
	votes := l.nodes.each(ctx, askSet(l.key, l.token, l.ttl))
	end := start.Add(l.ttl - drift(l.ttl))
	if ctx.Err() == nil && votes.majority() && time.Now().Before(end) {
		l.valid = newValidity(end)
		return true, nil
	}
	l.giveBack(ctx)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return false, votes.quorumError("answered")
}

// giveBack deletes the key wherever it may be, whether ctx has ended or not; each node's time-out bounds it. What cannot
// be reached expires.
func (l *redlockLease) giveBack(ctx context.Context) {
	l.nodes.each(context.WithoutCancel(ctx), askDelete(l.key, l.token))
}

// Context implements Lease: it ends with the validity.
func (l *redlockLease) Context() context.Context { return l.valid.ctx }

// Release implements Lease. The lock was lost when even the nodes that did not answer cannot have made a majority.
func (l *redlockLease) Release(ctx context.Context) error {
	l.valid.stop()
	return releaseError(l.key, l.nodes.each(ctx, askDelete(l.key, l.token)).stillHeld())
}

// Renew implements Renewer: a majority has to agree, as when the lock was taken.
func (l *redlockLease) Renew(ctx context.Context) error {
	start := time.Now()
	if err := l.beside.each(ctx, askExpire(l.key, l.token, l.ttl)).stillHeld(); err != nil {
		return err
	}
	if !l.valid.extend(start.Add(l.ttl - drift(l.ttl))) {
		return ErrLost
	}
	return nil
}

// drift is how much shorter the TTL may be by the clock of another machine.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

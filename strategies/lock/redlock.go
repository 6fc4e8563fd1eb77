package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/backoff"
	"github.com/marketsim/marketsim/strategies/param"
)

// redlock takes the same key with the same random token on N independent masters, one after the other: SET NX PX, with
// a time-out for each node that is far below the TTL. The lock is held when a majority (N/2+1) has granted it and part
// of its validity remains: TTL - time taken - drift, where drift is 1% of the TTL + 2 ms for clocks that run at
// different rates. Otherwise it is given back on every node, also on those that refused or did not answer, and tried
// again after a random delay. It is released on every node by compare-and-delete.
//
// It promises that only its holder releases it, that a crashed holder does not hold it for good, and that it works
// while a minority of the nodes is down. A lease's context ends with the lock's validity, by the client's monotonic
// clock: clients' wall clocks do not matter. An earlier loss goes unnoticed until a renewal or the release.
//
// What breaks it: the servers' clocks. A node whose clock jumps ahead, or one that restarts without its data, forgets
// the lock, and a second client can find a majority while the first holds one. A holder that is paused after it has
// checked its context and before its write writes too late, as with every lock that has a TTL, and there is no fencing
// token to stop it. A command that timed out may still run when its node wakes up; the key then stays for a TTL. Two
// clients who come at once can split the nodes between them, and none gets the lock.
//
// Source: redis.io, "Distributed Locks with Redis".
func redlock() Kind {
	promises := Promises{
		Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
		SurvivesNodeLoss: true, NoticesLoss: true,
	}
	return Polls(Kind{
		Name:     "redlock",
		Summary:  "SET NX PX on a majority of independent masters; valid for the TTL less the time taken and drift",
		Source:   `redis.io, "Distributed Locks with Redis"`,
		Promises: promises,
		Params:   []param.Param{TTLParam, nodeTimeoutParam, PollParam, redlockJitterParam, TimeoutParam},
		Check:    checkNodeTimeout,
		Needs:    NeedsMasters,
		Renews:   true,
		New: func(env Env) (Locker, error) {
			if n := len(env.Servers.Masters); n < 3 || n%2 == 0 {
				return nil, fmt.Errorf(
					"%w: redlock needs an odd number of independent Redis masters, three or more, and there are %d",
					ErrServers, n)
			}
			return newRedlockLocker(env, promises), nil
		},
	})
}

var (
	nodeTimeoutParam = param.Duration("node-timeout", 50*time.Millisecond, time.Millisecond,
		"how long one master may take to answer, at most a quarter of ttl")
	redlockJitterParam = param.Param{
		Name: backoff.JitterParam.Name, Default: "1", Normalize: backoff.JitterParam.Normalize,
		Summary: "random part of the wait: 1 is from nothing to twice the wait; full and decorrelated have their own",
	}
)

// checkNodeTimeout makes sure that a few silent nodes do not use up the validity.
func checkNodeTimeout(v param.Values) error {
	if ttl, timeout := v.Duration(TTLParam), v.Duration(nodeTimeoutParam); 4*timeout > ttl {
		return fmt.Errorf("node-timeout is %s, and it must not be longer than a quarter of ttl, %s", timeout, ttl)
	}
	return nil
}

type redlockLocker struct {
	*polled
	nodes      masters // for the worker
	background masters // for renewals
}

func newRedlockLocker(env Env, promises Promises) *redlockLocker {
	timeout := env.Params.Duration(nodeTimeoutParam)
	l := &redlockLocker{
		nodes:      newMasters(env.Servers.Masters, timeout, env.Traffic.Servers),
		background: newMasters(env.Servers.Masters, timeout, env.Traffic.Background),
	}
	l.polled = newPolled(env, promises, func(lease redisLease) grant {
		return &redlockLease{nodes: l.nodes, background: l.background, key: lease.key, token: lease.token, ttl: lease.ttl()}
	})
	l.retries.waits.Jitter(env.Params.Fraction(redlockJitterParam))
	return l
}

// Close implements io.Closer.
func (l *redlockLocker) Close() error { return errors.Join(l.nodes.Close(), l.background.Close()) }

type redlockLease struct {
	nodes, background masters
	key, token        string
	ttl               time.Duration
	valid             *validity
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
	// Delete the key wherever it may be, also when ctx has ended; the time-out of each node bounds this. A key on a node
	// that does not answer expires.
	l.nodes.each(context.WithoutCancel(ctx), askDelete(l.key, l.token))
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return false, votes.quorumError("answered")
}

// Context implements Lease: it ends with the validity.
func (l *redlockLease) Context() context.Context { return l.valid.ctx }

// Release implements Lease. The lock was lost if there was no majority, even with the nodes that did not answer.
func (l *redlockLease) Release(ctx context.Context) error {
	l.valid.stop()
	if err := l.nodes.each(ctx, askDelete(l.key, l.token)).stillHeld(); err != nil {
		return fmt.Errorf("release %s: %w", l.key, err)
	}
	return nil
}

// Renew implements Renewer: a majority has to agree, as when the lock was taken.
func (l *redlockLease) Renew(ctx context.Context) error {
	start := time.Now()
	if err := l.background.each(ctx, askExpire(l.key, l.token, l.ttl)).stillHeld(); err != nil {
		return err
	}
	if !l.valid.extend(start.Add(l.ttl - drift(l.ttl))) {
		return ErrLost
	}
	return nil
}

// drift is how much shorter the TTL may be by the clock of another machine.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// validity is a context that ends with ErrLost when a lock may no longer be held, by the client's monotonic clock.
type validity struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	timer  *time.Timer
}

func newValidity(end time.Time) *validity {
	v := &validity{}
	v.ctx, v.cancel = context.WithCancelCause(context.Background())
	v.timer = time.AfterFunc(time.Until(end), func() { v.cancel(ErrLost) })
	return v
}

// extend puts the end off. It returns false when the end has come already.
func (v *validity) extend(end time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil || !v.timer.Stop() {
		return false
	}
	v.timer.Reset(time.Until(end))
	return true
}

// stop prevents the end, because the lock is given back.
func (v *validity) stop() { v.timer.Stop() }

// masters are the connections of one worker to independent Redis masters.
type masters []*master

func newMasters(
	dialers []func(context.Context) (*redis.Client, error), timeout time.Duration, stats *backend.Stats,
) masters {
	all := make(masters, len(dialers))
	for i, dial := range dialers {
		all[i] = &master{dial: dial, timeout: timeout, stats: stats}
	}
	return all
}

// An ask is what is asked of one master; true is a vote in favour.
type ask func(ctx context.Context, rdb *redis.Client) (bool, error)

// each asks one master after the other, all of them.
func (m masters) each(ctx context.Context, question ask) votes {
	v := votes{of: len(m)}
	for _, node := range m {
		yes, err := node.do(ctx, question)
		switch {
		case err != nil:
			v.failures = append(v.failures, err)
		case yes:
			v.yes++
		}
	}
	return v
}

// Close closes the connections that are open.
func (m masters) Close() error {
	var errs []error
	for _, node := range m {
		errs = append(errs, node.close())
	}
	return errors.Join(errs...)
}

// votes are the answers of masters. A question that failed may have been executed nevertheless.
type votes struct {
	of, yes  int
	failures []error
}

func (v votes) quorum() int { return v.of/2 + 1 }

func (v votes) majority() bool { return v.yes >= v.quorum() }

// quorumError is nil when a majority answered, whatever the answers were.
func (v votes) quorumError(what string) error {
	if n := v.of - len(v.failures); n < v.quorum() {
		return fmt.Errorf("only %d of %d masters %s: %w", n, v.of, what, errors.Join(v.failures...))
	}
	return nil
}

// stillHeld is nil when a majority voted in favour, ErrLost when there cannot be one, and another error when that is
// not known.
func (v votes) stillHeld() error {
	switch {
	case v.majority():
		return nil
	case v.yes+len(v.failures) < v.quorum():
		return ErrLost
	}
	return fmt.Errorf("%d of %d masters agreed, and others failed: %w", v.yes, v.of, errors.Join(v.failures...))
}

// master is a connection that opens when it is first needed, and again after a failure. A node that is down costs at
// most the time-out each time, and is used again as soon as it is back.
type master struct {
	dial    func(context.Context) (*redis.Client, error)
	timeout time.Duration
	stats   *backend.Stats
	mu      sync.Mutex
	rdb     *redis.Client
}

func (m *master) do(ctx context.Context, question ask) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if m.rdb == nil {
		rdb, err := m.dial(backend.CountInto(ctx, m.stats))
		if err != nil {
			return false, err
		}
		m.rdb = rdb
	}
	yes, err := question(ctx, m.rdb)
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		// Closing discards a late reply with its connection. An error of Close changes nothing.
		_ = m.rdb.Close()
		m.rdb = nil
	}
	return yes, err
}

func (m *master) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rdb == nil {
		return nil
	}
	err := m.rdb.Close()
	m.rdb = nil
	return err
}

func askSet(key, token string, ttl time.Duration) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		err := rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", key, token, "nx", "px", ttl.Milliseconds()))
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	}
}

func askDelete(key, token string) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		found, err := compareDelete.Run(ctx, rdb, []string{key}, token).Int64()
		return found == 1, err
	}
}

func askExpire(key, token string, ttl time.Duration) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		found, err := compareExpire.Run(ctx, rdb, []string{key}, token, ttl.Milliseconds()).Int64()
		return found == 1, err
	}
}

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/param"
)

// redlock takes the same key with the same random token on N independent masters, one
// after the other: SET NX PX, with a time-out for each node that is far below the TTL.
// The lock is held when a majority has granted it and part of its validity remains: TTL -
// time taken - drift, where drift is 1% of the TTL + 2 ms for clocks that run at
// different rates. Otherwise it is given back on every node, also on those that refused
// or did not answer, and tried again after a random delay. It is released on every node
// by compare-and-delete. A lease's context ends with the validity, by the client's
// monotonic clock; an earlier loss goes unnoticed until a renewal or the release.
//
// What breaks it: the servers' clocks. A node whose clock jumps ahead, or that restarts
// without its data, forgets the lock, and a second client can find a majority. A holder
// that is paused between its last look at its context and its write writes too late, and
// there is no fencing token to stop it. A command that timed out may run when its node
// wakes up; the key then stays for a TTL. Two clients that come at once can split the
// nodes, and none gets the lock.
//
// With clock=wall the client subtracts two readings of its wall clock and deducts no
// drift, as code by the published steps does. If the clock is set back meanwhile, the
// lock seems valid for longer, and its holder works on beside the next one (scenario
// clock-set-back). Source: redis.io, "Distributed Locks with Redis".
func redlock() Kind {
	return withOwnParts(polls(Kind{
		Name: "redlock", Renews: true,
		Summary: "SET NX PX on a majority of independent masters; valid for the TTL less the time taken and drift",
		Source:  `redis.io, "Distributed Locks with Redis"`,

		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true,
			SurvivesNodeLoss: true, NoticesLoss: true,
		},
		PromisesWith: func(v param.Values, p *Promises) {
			p.ClockIndependent = v.Text(clockParam) != wallClock
		},
		Params: []param.Param{
			TTLParam, nodeTimeoutParam, clockParam, PollParam, redlockJitterParam, TimeoutParam,
		},
		Check: func(v param.Values) error { // a few silent nodes are not to use up the validity
			if ttl, timeout := v.Duration(TTLParam), v.Duration(nodeTimeoutParam); 4*timeout > ttl {
				return fmt.Errorf("node-timeout is %s, and it must not be longer than a quarter of ttl, %s",
					timeout, ttl)
			}
			return nil
		},
		Needs:    NeedsMasters,
		Variants: []string{":" + clockParam.Name + "=" + wallClock},
	}), func(l *locker) (newAcquisition, error) {
		n := len(l.env.Servers.Masters)
		if n < 3 || n%2 == 0 {
			return nil, fmt.Errorf("%w: redlock needs an odd number of independent Redis masters, "+
				"three or more, and there are %d", ErrServers, n)
		}

		nodes := newMasters(l, forAcquisitions)
		background := newMasters(l, forRenewals)
		// Retries has read locking.JitterParam, of the same name, whose default is another.
		l.Backoff.Jitter(l.env.Params.Fraction(redlockJitterParam))
		return func(h *hold) acquisition {
			return newRedlockLock(h, nodes, background)
		}, nil
	})
}

const wallClock = "wall"

var (
	clockParam = param.OneOf("clock",
		"what measures the time taken: the monotonic clock, drift deducted, or the wall clock",
		"monotonic", wallClock)
	nodeTimeoutParam = param.Duration("node-timeout", 50*time.Millisecond, time.Millisecond,
		"how long one master may take to answer, at most a quarter of ttl")
	redlockJitterParam = param.Fraction(locking.JitterParam.Name, "1",
		"random part of the wait: 1 is from nothing to twice the wait; full and decorrelated have their own")
)

type redlockLock struct {
	*hold
	nodes, background masters
	life              time.Duration    // for how long the lock is valid after it was asked for
	now               func() time.Time // by which the time taken is measured
	end               *time.Timer      // of the validity, by the client's monotonic clock
}

func newRedlockLock(h *hold, nodes, background masters) *redlockLock {
	ttl := h.ttl()
	l := &redlockLock{hold: h, nodes: nodes, background: background}
	if h.env.Params.Text(clockParam) == wallClock {
		l.life = ttl
		l.now = func() time.Time {
			return h.env.Now().Round(0) // without its monotonic reading
		}
		return l
	}

	drift := ttl/100 + 2*time.Millisecond // the TTL may be shorter by the clock of another machine
	l.life = ttl - drift
	l.now = time.Now // not Env.Now: scenarios of wrong clocks apply to whoever reads that
	return l
}

func (l *redlockLock) take(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}

	// Scenario clock-set-back leaves the first reading of a client right, and sets back the next:
	// there is one before the lock is asked for, and one after.
	start := l.now()
	votes := l.nodes.each(ctx, l.askForLock)
	left := l.life - l.now().Sub(start)
	if ctx.Err() == nil && votes.majority() && left > 0 {
		noticed, lose := context.WithCancelCause(context.Background())
		l.end = time.AfterFunc(left, func() {
			lose(ErrLost)
		})
		l.lease.Noticed = noticed
		return true, nil
	}

	// Delete the key wherever it may be, also when ctx has ended; the time-out of
	// each node bounds this. There is no other undo: release needs l.end, which is nil here.
	l.nodes.each(context.WithoutCancel(ctx), askScript(locking.CompareDelete, l.key, l.token))
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return false, votes.unanswered()
}

func (l *redlockLock) askForLock(ctx context.Context, rdb *redis.Client) (bool, error) {
	ttl := l.ttl().Milliseconds()
	return wasSet(rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", l.key, l.token, "nx", "px", ttl)))
}

// release finds the lock lost if there was no majority, even with the nodes that did not
// answer.
func (l *redlockLock) release(ctx context.Context) error {
	l.end.Stop()
	votes := l.nodes.each(ctx, askScript(locking.CompareDelete, l.key, l.token))
	return l.releases(1, votes.stillHeld())
}

// renew needs a majority that agrees, as take does.
func (l *redlockLock) renew(ctx context.Context) error {
	start := l.now()
	renews := askScript(compareExpire, l.key, l.token, l.ttl().Milliseconds())
	if err := l.background.each(ctx, renews).stillHeld(); err != nil {
		return err
	}
	if !l.end.Stop() { // it has come
		return ErrLost
	}
	l.end.Reset(l.life - l.now().Sub(start))
	return nil
}

// masters are the connections of one worker to independent Redis masters.
type masters []*master

// newMasters returns those that dial connects to, closed with the Locker.
func newMasters(l *locker, dial func(Master) func(context.Context) (*redis.Client, error)) masters {
	all := make(masters, len(l.env.Servers.Masters))
	for i, m := range l.env.Servers.Masters {
		all[i] = &master{
			background: &background{dial: dial(m)},
			timeout:    l.env.Params.Duration(nodeTimeoutParam),
		}
		l.closers = append(l.closers, all[i])
	}
	return all
}

func forAcquisitions(m Master) func(context.Context) (*redis.Client, error) { return m.NewClient }

func forRenewals(m Master) func(context.Context) (*redis.Client, error) { return m.Background }

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

// votes are the answers of masters. A question that failed may have been
// executed nevertheless.
type votes struct {
	of, yes  int
	failures []error
}

func (v votes) quorum() int { return v.of/2 + 1 }

func (v votes) majority() bool { return v.yes >= v.quorum() }

// unanswered is nil when a majority answered, whatever the answers were.
func (v votes) unanswered() error {
	if n := v.of - len(v.failures); n < v.quorum() {
		return fmt.Errorf("only %d of %d masters answered: %w", n, v.of, errors.Join(v.failures...))
	}
	return nil
}

// stillHeld is nil when a majority voted in favour, and ErrLost when there cannot be one.
func (v votes) stillHeld() error {
	switch {
	case v.majority():
		return nil
	case v.yes+len(v.failures) < v.quorum():
		return ErrLost
	}
	return fmt.Errorf("%d of %d masters agreed, and others failed: %w",
		v.yes, v.of, errors.Join(v.failures...))
}

// master is a connection that opens when it is needed, so that a node is used
// again as soon as it is back.
type master struct {
	*background
	timeout time.Duration
	asking  sync.Mutex
}

// do asks a master one question at a time: all leases of a Locker share the connection for
// renewals, and a question that gets no answer closes it. The time-out begins with its turn.
func (m *master) do(ctx context.Context, question ask) (bool, error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()

	rdb, err := m.connection(ctx)
	if err != nil {
		return false, err
	}

	yes, err := question(ctx, rdb)
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		_ = m.Close() // discards a late reply with its connection; an error of it changes nothing
	}
	return yes, err
}

// askScript asks for what a script does with the key if it holds the token.
func askScript(script *redis.Script, key string, args ...any) ask {
	return func(ctx context.Context, rdb *redis.Client) (bool, error) {
		found, err := script.Run(ctx, rdb, []string{key}, args...).Int64()
		return found == 1, err
	}
}

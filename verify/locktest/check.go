package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A Lock takes a lock for one client, and returns how to unlock it. If the lock is held, it
// waits until ctx ends, or returns an error at once, and is called again. That ctx is for
// taking the lock alone: it has ended when unlock is called, which has its own. name is the
// lock's own key, or the beginning of all its keys. unlock may be called again, and may return
// anything if the lock was no longer held. Two goroutines may call a Lock at the same time,
// unless its client is [Confined].
type Lock func(ctx context.Context, name string) (unlock func(ctx context.Context) error, err error)

// An Open makes a client of a lock of your own. It connects by w.Dial, whatever the
// address, and its locks expire w.TTL after they were taken or renewed. What else w has
// may be ignored. ctx is the life of the client, until it has crashed or its test is
// over: its goroutines end with it. The closer is closed after that, and may be nil. It may say
// more of the lock: see [Extender] and [Confined].
type Open func(ctx context.Context, w Worker) (Lock, io.Closer, error)

// Check is a first answer about a lock of your own. It needs no server, because it
// starts one for each address that clients dial: a private redis-server if one is
// installed, else miniredis. It checks that the lock is exclusive, that only its holder
// releases it, and that it becomes free after a holder has crashed. Users give up an
// acquisition and a release at each of their requests, and a wait at its first four: what they
// leave keeps others out until its lease ends at most, which is logged. It finds out how short
// a lease the lock can have, and whether the lock renews it, and logs both. From a holder that
// renews its lease it takes the lock away by deleting its keys. [Run] checks more, and asks for
// more.
//
// A promise that could not be checked is logged, and go test shows the log of a test that
// passes only with -v. Check(t, open).Require(t) fails such a test.
func Check(t *testing.T, open Open) Report {
	t.Helper()
	s := &served{t: t}
	factory := open.factory(s.at)
	factory.learn(t)
	if factory.Renewing { // else the end of its lease takes it away
		factory.Lose = s.lose
	}
	return Run(t, factory)
}

// checkTTL is how long a lock of [Check] lasts if it must not run out. checkPatience is
// how long nothing may happen: the lock may try only once in a fraction of its lease.
// checkEnd is how long it may wait for a reply after ctx ends.
const (
	checkTTL      = 10 * time.Second
	checkPatience = 6 * time.Second
	checkEnd      = 3 * time.Second
)

// learn finds a Lock's shortest lease, and whether it is renewed in two of three tries: a
// busy machine may be too late.
func (factory *Factory) learn(t *testing.T) {
	t.Helper()
	var last error
	for _, ttl := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second} {
		renewing, err := factory.renewsMostly(t, ttl)
		if err == nil {
			factory.TTL = ttl
			factory.Renewing = renewing
			t.Logf("leases of %s are checked; while their holder lives they are renewed: %v", ttl, renewing)
			return
		}

		t.Logf("a lease of %s cannot be had: %v", ttl, err)
		last = err
	}
	t.Fatalf("a free lock cannot be taken: %v", last)
}

// renewsMostly is what two of at most three tries of renews say.
func (factory *Factory) renewsMostly(t *testing.T, ttl time.Duration) (bool, error) {
	t.Helper()
	var renewed, expired int
	for max(renewed, expired) < 2 {
		renewing, err := factory.renews(t, ttl)
		if err != nil {
			return false, err
		}

		if renewing {
			renewed++
		} else {
			expired++
		}
	}
	return renewed > expired, nil
}

// renews reports whether another client that comes after two leases does not get
// in within two more, or a second: its second try may be late. The error says
// that the lock cannot be taken.
func (factory *Factory) renews(t *testing.T, ttl time.Duration) (bool, error) {
	t.Helper()
	name := newName()
	holder := factory.Open(t, Worker{TTL: ttl, Timeout: checkPatience})
	other := factory.Open(t, Worker{TTL: ttl, Timeout: checkPatience, Number: 1}).(*adapter)

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	lease, err := holder.Acquire(ctx, name)
	if err != nil {
		return false, err
	}

	time.Sleep(2 * ttl)
	next, kept := other.within(t.Context(), max(2*ttl, time.Second), name, lock.ErrHeld)
	if kept == nil {
		_ = next.Release(t.Context())
	}
	_ = lease.Release(t.Context()) // which may be over
	return kept != nil, nil
}

// served are the servers of a test, one for each address that its workers dial.
type served struct {
	t       testing.TB
	started lock.ProcessState // what all workers share

	mu  sync.Mutex
	all []redisconn.Target
}

// at is the server that stands for an address.
func (s *served) at(addr string) redisconn.Target {
	return lock.Share(&s.started, addr, func() redisconn.Target {
		target := suite.Server(s.t).Target
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, target)
		return target
	})
}

// databases is how many a redis-server has unless it is told otherwise.
const databases = 16

// lose deletes, in each database of each server, the keys with the name of a lock in theirs:
// a lock may prefix its name. If it has none there, whoever comes next does not get in, which
// leaves a check unchecked.
func (s *served) lose(t testing.TB, name string) {
	t.Helper()
	ctx := t.Context()
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()

	for _, target := range all {
		err := redisconn.With(ctx, target, func(conn *redisconn.Conn) (err error) {
			for n := 0; n < databases && err == nil; n++ {
				err = deleteNamed(ctx, conn, n, name)
			}
			return err
		})
		if err != nil {
			t.Fatalf("taking the lock away: deleting its keys: %v", err)
		}
	}
}

// deleteNamed selects a database, and deletes the keys with a name in theirs.
func deleteNamed(ctx context.Context, conn *redisconn.Conn, database int, name string) error {
	if err := conn.Do(ctx, "SELECT", database).Err(); err != nil {
		return err
	}
	keys, err := conn.Keys(ctx, "*"+name+"*").Result()
	if err != nil || len(keys) == 0 {
		return err
	}
	return conn.Del(ctx, keys...).Err()
}

// factory makes a Factory of the clients that open makes.
func (open Open) factory(at func(addr string) redisconn.Target) Factory {
	return Factory{
		adapted:  true,
		Patience: checkPatience,
		Parallel: true,
		Open: func(t testing.TB, w Worker) lock.Locker {
			return open.adapter(t, w, at)
		},
	}
}

// adapter opens a client. What it dials leads to the server that at returns for an address.
func (open Open) adapter(t testing.TB, w Worker, at func(addr string) redisconn.Target) *adapter {
	t.Helper()
	w.dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return w.proxies.Connect(ctx, at(addr))
	}
	// t.Context ends before the cleanups, of which some still release locks of this client.
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	l, closer, err := open(life, w)
	// Before err is looked at: what an Open that failed has made is closed, too.
	t.Cleanup(func() {
		end()
		if closer != nil {
			_ = closer.Close() // the check may have crashed it
		}
	})

	if err != nil {
		t.Fatalf("opening the lock: %v", err)
	}
	extender, _ := closer.(Extender)
	return &adapter{lock: l, extender: extender, w: w, end: end, rest: 2 * time.Millisecond}
}

// An adapter makes a Lock a Locker. It promises what any lock should keep, and no more.
type adapter struct {
	lock     Lock
	extender Extender // nil: it cannot extend
	w        Worker
	end      context.CancelFunc // ends the client's life
	rest     time.Duration      // between two calls of the lock
}

// tryFor is how long a Try takes of a lock that is held: the Lock may wait, and
// cannot be asked whether it does.
const tryFor = 100 * time.Millisecond

func (*adapter) Promises() lock.Promises {
	return lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true}
}

func (a *adapter) Try(ctx context.Context, name string) (*lock.Lease, error) {
	return a.within(ctx, tryFor, name, lock.ErrHeld)
}

func (a *adapter) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return a.within(ctx, a.w.Timeout, name, lock.ErrTimeout)
}

// within takes the lock, and returns late if it has not after some time, or ctx's error if that
// has ended. Errors include the last one of the lock. The lock is called at least once, even
// under a ctx that has ended: endedContextTakesNothing looks at what that call does.
func (a *adapter) within(
	ctx context.Context, limit time.Duration, name string, late error) (*lock.Lease, error) {

	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var last error // the last that is not only the end of the context; if all are, the first
	for {
		unlock, err := a.lock(bounded, name)
		if err == nil {
			return a.lease(name, unlock), nil
		}

		if last == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			last = err
		}
		if bounded.Err() != nil {
			return nil, fmt.Errorf("%w: the last that the lock said is: %w", cmp.Or(ctx.Err(), late), last)
		}
		time.Sleep(a.rest)
	}
}

// lease is that of a lock which was taken, and which can be renewed if it can be extended.
func (a *adapter) lease(name string, unlock func(context.Context) error) *lock.Lease {
	lease := &lock.Lease{Release: unlock}
	if a.extender != nil {
		lease.Renew = func(ctx context.Context) error {
			return a.extender.Extend(ctx, name)
		}
	}
	return lease
}

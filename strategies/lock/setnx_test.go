package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestMain(m *testing.M) { backendtest.VerifyNoLeaks(m) }

// bench is where lockers meet: a server and the keys of one market.
type bench struct {
	testing.TB
	server *backend.Server
	conn   *backend.Conn // the test's own
	keys   market.Keys
}

const name = "item"

func eachServer(t *testing.T, f func(t *testing.T, b *bench)) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) { f(t, newBench(t, s)) })
}

func newBench(t testing.TB, s *backend.Server) *bench {
	return &bench{TB: t, server: s, conn: backendtest.Dial(t, s), keys: backendtest.Keys(t)}
}

// locker opens a setnx that reaches the server through another one, which may be a proxy.
func (b *bench) locker(through *backend.Server, steps step.Observer, params param.Values) lock.Locker {
	b.Helper()
	l, err := kind(b, "setnx").New(lock.Env{
		Redis: backendtest.Dial(b, through).Client, Key: b.keys.Lock, Params: params, Steps: steps,
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func kind(t testing.TB, name string) lock.Kind {
	t.Helper()
	for _, k := range lock.All() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("there is no lock %q", name)
	return lock.Kind{}
}

func (b *bench) acquire(l lock.Locker) lock.Lease {
	b.Helper()
	lease, err := l.Acquire(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// holder returns what the lock's key holds, or "" when the lock is free.
func (b *bench) holder() string {
	b.Helper()
	token, err := b.conn.Get(b.Context(), b.keys.Lock(name)).Result()
	if err != nil && err != redis.Nil {
		b.Fatal(err)
	}
	return token
}

func TestSetNXSecondAcquirerWaits(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		first := b.acquire(b.locker(b.server, nil, nil))
		waits := step.Hold(step.Waiting)
		locker := b.locker(b.server, waits.Observe, nil)
		acquired := make(chan lock.Lease, 1)
		go func() {
			lease, err := locker.Acquire(t.Context(), name)
			if err != nil {
				t.Errorf("second acquisition: %v", err)
			}
			acquired <- lease
		}()
		<-waits.Reached()
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		waits.Open()
		second := <-acquired
		if polls := locker.(lock.Poller).Polls(); polls != 1 {
			t.Errorf("it polled %d times, want 1", polls)
		}
		if err := second.Release(t.Context()); err != nil || b.holder() != "" {
			t.Errorf("second release: %v; then the lock is held by %q", err, b.holder())
		}
	})
}

func TestSetNXTryAndTimeoutReportAHeldLock(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		holder := b.locker(b.server, nil, nil)
		lease := b.acquire(holder)
		other := b.locker(b.server, nil, param.Values{"timeout": "0s"})
		if _, err := other.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("Try: %v, want %v", err, lock.ErrHeld)
		}
		if _, err := other.Acquire(t.Context(), name); !errors.Is(err, lock.ErrTimeout) {
			t.Errorf("Acquire: %v, want %v", err, lock.ErrTimeout)
		}
		if _, err := holder.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) || holder.Promises().Reentrant {
			t.Errorf("the holder's Try: %v, want %v: it is not reentrant", err, lock.ErrHeld)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if lease, err := other.Try(t.Context(), name); err != nil || lease.Context().Err() != nil {
			t.Errorf("Try of a free lock: %v", err)
		}
	})
}

func TestSetNXReleaseLeavesAnothersLock(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		lease := b.acquire(b.locker(b.server, nil, nil))
		b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) || b.holder() != "another" {
			t.Errorf("release: %v, want %v; then held by %q, want another", err, lock.ErrLost, b.holder())
		}
		b.conn.Del(t.Context(), b.keys.Lock(name))
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of a lock that is gone: %v, want %v", err, lock.ErrLost)
		}
	})
}

// A lock that is taken over between the comparison and the deletion is not deleted.
func TestSetNXReleaseIsAtomic(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		rdb := backendtest.Dial(t, b.server)
		rdb.AddHook(before{"multi", func() { b.conn.Set(t.Context(), b.keys.Lock(name), "another", 0) }})
		l, err := kind(t, "setnx").New(lock.Env{Redis: rdb.Client, Key: b.keys.Lock})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.acquire(l).Release(t.Context()); !errors.Is(err, lock.ErrLost) || b.holder() != "another" {
			t.Errorf("release: %v, want %v; then held by %q, want another", err, lock.ErrLost, b.holder())
		}
	})
}

func TestSetNXLostReplyLeavesNoLock(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := wire.Start(t, b.server)
		for _, take := range []func(lock.Locker) error{
			func(l lock.Locker) error { _, err := l.Acquire(t.Context(), name); return err },
			func(l lock.Locker) error { _, err := l.Try(t.Context(), name); return err },
		} {
			l := b.locker(proxy.Server(), nil, nil)
			proxy.LoseReply("setnx")
			if err := take(l); err == nil || errors.Is(err, lock.ErrHeld) || b.holder() != "" {
				t.Errorf("acquisition: %v; then held by %q, want nobody", err, b.holder())
			}
			if err := b.acquire(l).Release(t.Context()); err != nil {
				t.Errorf("release of the next acquisition: %v", err)
			}
		}
	})
}

func TestSetNXContextEndsTheWait(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		b.acquire(b.locker(b.server, nil, nil))
		ctx, cancel := context.WithCancel(t.Context())
		// It would poll once an hour: only the context can end the wait in time.
		l := b.locker(b.server, whenever(step.Waiting, cancel), param.Values{"poll": "1h0m0s", "timeout": "2h0m0s"})
		start := time.Now()
		if _, err := l.Acquire(ctx, name); !errors.Is(err, context.Canceled) || time.Since(start) > 5*time.Second {
			t.Errorf("Acquire: %v after %s, want %v at once", err, time.Since(start), context.Canceled)
		}
	})
}

// The flaw that the doc comment admits: a full server refuses to queue the DEL.
func TestSetNXStaysHeldWhenTheServerIsFull(t *testing.T) {
	b := newBench(t, backendtest.Local(t))
	lease := b.acquire(b.locker(b.server, nil, nil))
	if err := b.conn.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !redis.IsExecAbortError(err) || b.holder() == "" {
		t.Errorf("release: %v; then held by %q, want the same holder", err, b.holder())
	}
}

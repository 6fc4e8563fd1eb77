// Package subjects makes what tests try of marketsim's own locks and strategies: lock.go
// makes verify/locktest's Factory of every lock.Kind that needs one Redis and nothing else
// (for one with other servers, a test that starts them writes its own), and strategy.go
// makes strategies whose Purchasers a test watches, spoils or stops.
package subjects

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/locktest"
)

// OnRedis is a kind of lock on a server. A holder crashes when its connections are cut,
// and a lock is lost when its keys are deleted.
type OnRedis struct {
	Server *backend.Server
	Kind   lock.Kind
	Params param.Values // other than its TTLs and time-out, which the suite sets

	// Process is shared by all workers. By default each worker is alone in its
	// process; only then can it crash.
	Process *lock.ProcessState

	TTL      time.Duration // as in locktest.Factory
	Renewing bool          // as in locktest.Factory
	Parallel bool          // as in locktest.Factory
}

// Factory returns the Factory, with all hooks. Its keys are under a prefix that nothing
// else uses. A key of that prefix which is there at the end of t, and which Kind.Keys
// does not list, is an error.
func (r OnRedis) Factory(t testing.TB) locktest.Factory {
	t.Helper()
	random := rand.Text()
	keys, err := market.NewKeys("test:{" + random + "}:")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := r.Server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })

	// Runs before the connection is closed: cleanups run last first.
	m := &maker{OnRedis: r, keys: keys}
	t.Cleanup(func() {
		m.findUndeclared(t, admin.Client, random)
	})

	factory := locktest.Factory{
		Open:     m.open,
		TTL:      r.TTL,
		Renewing: r.Renewing,
		Parallel: r.Parallel,
		Clock:    !r.Kind.OwnClock,
		Lose: func(t testing.TB, name string) {
			of := r.Kind.AllKeys(keys.Lock(name))
			if err := admin.Del(context.WithoutCancel(t.Context()), of...).Err(); err != nil {
				t.Fatalf("taking the lock away: deleting its keys: %v", err)
			}
		},
	}
	if r.Process != nil {
		factory.Crash = func(t testing.TB, _ lock.Locker) {
			// RunOne of package suite takes a hook's skip for a check that could not be made.
			t.Skip("a worker that shares its process cannot crash alone")
		}
	}
	return factory
}

// A maker makes Lockers of one Factory.
type maker struct {
	OnRedis
	keys     market.Keys
	declared sync.Map // the keys of all locks that were named
}

func (m *maker) key(name string) string {
	key := m.keys.Lock(name)
	for _, k := range m.Kind.AllKeys(key) {
		m.declared.Store(k, true)
	}
	return key
}

// findUndeclared fails the test for keys with the Factory's random text in their names
// that the kind does not list.
func (m *maker) findUndeclared(t testing.TB, admin *redis.Client, random string) {
	ctx := context.WithoutCancel(t.Context())
	found := admin.Scan(ctx, 0, "*"+random+"*", 1000).Iterator()
	for found.Next(ctx) {
		if _, declared := m.declared.Load(found.Val()); !declared {
			t.Errorf("the lock left %s, which the Keys of its Kind do not list, "+
				"so that no run removes it", found.Val())
		}
	}
	if err := found.Err(); err != nil {
		t.Errorf("looking for keys that the lock left: %v", err)
	}
}

func (m *maker) open(t testing.TB, w locktest.Worker) lock.Locker {
	t.Helper()
	rdb, err := m.dial(t.Context(), t, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })

	// What a process shares has to outlive the worker that happens to dial: it connects
	// past the proxies of that worker.
	dials := w
	if m.Process != nil {
		dials = locktest.Worker{}
	}
	params, err := m.params(w)
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Kind.New(lock.Env{
		ClientEnv: market.ClientEnv{Number: w.Number, Steps: w.Steps, Now: w.Now},
		Redis:     rdb,
		NewClient: func(ctx context.Context) (*redis.Client, error) {
			return m.dial(ctx, t, dials)
		},
		Key:     m.key,
		Params:  params,
		Process: m.Process,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dial connects a worker to the server, over TCP through the proxies at which it is held.
func (m *maker) dial(ctx context.Context, t testing.TB, w locktest.Worker) (*redis.Client, error) {
	target := m.Server.Target
	if target.Network == "tcp" {
		target.Addr = w.Through(t, target.Addr)
	}
	return redisconn.To(target).Client(ctx)
}

// params are the parameters that the kind has: each TTL and the time-out as the worker's, others
// as they are given. All are normalized, and checked together. A given one that the kind lacks is
// left out: conforms, in the tests of package lock, gives "poll" to every kind.
func (m *maker) params(w locktest.Worker) (param.Values, error) {
	values := param.Values{}
	for _, p := range m.Kind.Params {
		value, set := m.Params[p.Name]
		switch {
		case p.Role == param.Timeout:
			value = w.Timeout.String()
		case p.Role == param.Lease:
			value = w.TTL.String()
		case !set:
			continue
		}

		normal, err := p.Normalize(value)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		values[p.Name] = normal
	}
	if m.Kind.Check != nil {
		return values, m.Kind.Check(values)
	}
	return values, nil
}

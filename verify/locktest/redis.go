package locktest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Redis makes the Factory, with all hooks, of a lock.Kind that needs one Redis
// and nothing else. A holder crashes when its connections are cut, and a lock is
// lost when its keys are deleted.
type Redis struct {
	Server *backend.Server
	Kind   lock.Kind
	Params param.Values // other than its TTLs and time-out, which the suite sets

	// Process is shared by all workers. By default each worker is alone in its
	// process; only then can it crash.
	Process *lock.Process

	TTL      time.Duration // as in Factory
	Renewing bool          // as in Factory
	Parallel bool          // as in Factory
}

// Factory returns the Factory. Its keys are under a prefix that nothing else
// uses. A key of that prefix which is there at the end of t, and which
// Kind.Keys does not list, is an error.
func (r Redis) Factory(t testing.TB) Factory {
	t.Helper()
	own := rand.Text()
	keys, err := market.NewKeys("test:{" + own + "}:")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := r.Server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	m := &redisMaker{Redis: r, keys: keys}
	t.Cleanup(func() { m.findUndeclared(t, admin.Client, own) })
	f := Factory{
		Open: m.open, TTL: r.TTL, Renewing: r.Renewing, Parallel: r.Parallel, Clock: !r.Kind.OwnClock,
		Lose: func(t testing.TB, name string) {
			if err := admin.Del(context.WithoutCancel(t.Context()), r.Kind.AllKeys(keys.Lock(name))...).Err(); err != nil {
				t.Fatal(err)
			}
		},
	}
	if r.Process != nil {
		f.Crash = func(t testing.TB, _ lock.Locker) { t.Skip("a worker that shares its process cannot crash alone") }
	}
	return f
}

type redisMaker struct {
	Redis
	keys     market.Keys
	declared sync.Map // the keys of all locks that were named
}

func (m *redisMaker) key(name string) string {
	key := m.keys.Lock(name)
	for _, k := range m.Kind.AllKeys(key) {
		m.declared.Store(k, true)
	}
	return key
}

// findUndeclared fails the test for keys with own in their names that the kind
// does not list.
func (m *redisMaker) findUndeclared(t testing.TB, admin *redis.Client, own string) {
	ctx := context.WithoutCancel(t.Context())
	found := admin.Scan(ctx, 0, "*"+own+"*", 1000).Iterator()
	for found.Next(ctx) {
		if _, declared := m.declared.Load(found.Val()); !declared {
			t.Errorf("the lock left %s, which the Keys of its Kind do not list, so that no run removes it", found.Val())
		}
	}
	if err := found.Err(); err != nil {
		t.Errorf("looking for keys that the lock left: %v", err)
	}
}

func (m *redisMaker) open(t testing.TB, w Worker) lock.Locker {
	t.Helper()
	dial := func(ctx context.Context, w Worker) (*redis.Client, error) {
		target := m.Server.Target
		if target.Network == "tcp" {
			target.Addr = w.Through(t, target.Addr)
		}
		return redisconn.To(target).Client(ctx)
	}
	rdb, err := dial(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	more := w
	if m.Process != nil { // what the process shares has to outlive the worker that happens to dial
		more = Worker{}
	}
	l, err := m.Kind.New(lock.Env{
		Client:    market.Client{Number: w.Number, Steps: w.Steps, Now: w.Now},
		Redis:     rdb,
		NewClient: func(ctx context.Context) (*redis.Client, error) { return dial(ctx, more) },
		Key:       m.key,
		Params:    m.params(t, w),
		Process:   m.Process,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// params sets each TTL and the time-out that the kind has.
func (m *redisMaker) params(t testing.TB, w Worker) param.Values {
	t.Helper()
	values := param.Values{}
	for _, p := range m.Kind.Params {
		value, given := m.Params[p.Name]
		switch {
		case p.Role == param.Timeout:
			value = w.Timeout.String()
		case p.Role == param.Lease:
			value = w.TTL.String()
		case !given:
			continue
		}
		normal, err := p.Normalize(value)
		if err != nil {
			t.Fatalf("parameter %s: %v", p.Name, err)
		}
		values[p.Name] = normal
	}
	if m.Kind.Check != nil {
		if err := m.Kind.Check(values); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

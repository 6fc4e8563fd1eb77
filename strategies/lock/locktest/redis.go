package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Redis makes the Subject of a lock.Kind that needs one Redis and nothing else, with all its hooks: a holder crashes when
// its connections are closed, and the lock is lost when its keys are deleted.
type Redis struct {
	Server *backend.Server
	Kind   lock.Kind
	Params param.Values // besides its TTLs and time-out, which the suite sets

	// Process is shared by all workers. By default each is a process of its own, and only then can it crash.
	Process *lock.Process

	// OwnClock says that the lock does not use Env.Now: its clock can be set wrong only in a bubble, see Subject.
	OwnClock bool

	TTL      time.Duration // as in Subject
	Renewing bool          // as in Subject
}

// Subject returns the Subject. Its keys are under a prefix that nothing else uses.
func (r Redis) Subject(t testing.TB) Subject {
	t.Helper()
	keys, err := market.NewKeys("test:{" + rand.Text() + "}:")
	if err != nil {
		t.Fatal(err)
	}
	thief, err := r.Server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = thief.Close() })
	site := &site{Redis: r, keys: keys, outlets: map[lock.Locker]*outlet{}}
	s := Subject{
		Open: site.open, TTL: r.TTL, Renewing: r.Renewing, Clock: !r.OwnClock, Bubble: r.OwnClock,
		Lose: func(t testing.TB, name string) {
			if err := thief.Del(context.WithoutCancel(t.Context()), r.Kind.AllKeys(keys.Lock(name))...).Err(); err != nil {
				t.Fatal(err)
			}
		},
	}
	if r.Process == nil {
		s.Crash = func(_ testing.TB, l lock.Locker) { site.outlet(l).cut() }
	}
	return s
}

// site is where the workers of one Subject are.
type site struct {
	Redis
	keys    market.Keys
	mu      sync.Mutex
	outlets map[lock.Locker]*outlet
}

func (s *site) outlet(l lock.Locker) *outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outlets[l]
}

// open implements Subject.Open.
func (s *site) open(t testing.TB, w Worker) lock.Locker {
	t.Helper()
	out := &outlet{server: s.Server}
	t.Cleanup(out.cut)
	rdb, err := out.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dial := out.dial
	if s.Process != nil { // what is shared must outlive the worker that happened to dial
		dial = (&outlet{server: s.Server}).dial
	}
	l, err := s.Kind.New(lock.Env{
		Redis: rdb, Dial: dial, Key: s.keys.Lock, Params: s.params(t, w), Steps: w.Steps, Now: w.Now, Process: s.Process,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outlets[l] = out
	return l
}

// params sets each TTL and the time-out that the kind has.
func (s *site) params(t testing.TB, w Worker) param.Values {
	t.Helper()
	values := param.Values{}
	for _, p := range s.Kind.Params {
		value, given := s.Params[p.Name]
		switch {
		case p.Name == "timeout":
			value = w.Timeout.String()
		case p.Name == "ttl" || strings.HasSuffix(p.Name, "-ttl"):
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
	if s.Kind.Check != nil {
		if err := s.Kind.Check(values); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

// outlet is where a worker's connections come from. When it is cut they are closed, and there are no more.
type outlet struct {
	server *backend.Server
	mu     sync.Mutex
	over   bool
	conns  []*backend.Conn
}

var errCut = errors.New("the worker has crashed or ended")

// dial is lock.Env's Dial.
func (o *outlet) dial(ctx context.Context) (*redis.Client, error) {
	conn, err := o.server.Dial(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		_ = conn.Close()
		return nil, errCut
	}
	o.conns = append(o.conns, conn)
	return conn.Client, nil
}

func (o *outlet) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, conn := range o.conns {
		_ = conn.Close()
	}
	o.conns = nil
}

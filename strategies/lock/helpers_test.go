package lock_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(24) // they mostly wait
	testkit.VerifyNoLeaks(m)
}

// bench is where lockers meet: a server and the keys of one market.
type bench struct {
	testing.TB
	server *backend.Server
	conn   *redisconn.Conn // the test's own
	keys   market.Keys
}

const name = "item"

// onServer runs a parallel test on a server of its own, see [testkit.OnBest].
func onServer(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		f(t, newBench(t, s))
	})
}

// eachNamed runs a parallel test of each of several things, by their names, each on a server
// of its own.
func eachNamed(t *testing.T, names []string, f func(t *testing.T, b *bench, of string)) {
	t.Parallel()
	for _, of := range names {
		t.Run(of, func(t *testing.T) {
			onServer(t, func(t *testing.T, b *bench) {
				f(t, b, of)
			})
		})
	}
}

// eachCase is eachNamed, with something that belongs to each name.
func eachCase[C any](
	t *testing.T, cases map[string]C, f func(t *testing.T, b *bench, of string, c C)) {

	eachNamed(t, slices.Sorted(maps.Keys(cases)), func(t *testing.T, b *bench, of string) {
		f(t, b, of, cases[of])
	})
}

func newBench(t testing.TB, s *backend.Server) *bench {
	return &bench{TB: t, server: s, conn: testkit.Dial(t, s), keys: testkit.Keys(t)}
}

// unhurried lets acquisitions take as long as a busy machine needs, unless the
// test says how long.
func unhurried(params param.Values) param.Values {
	all := param.Values{lock.TimeoutParam.Name: soon.String()}
	maps.Copy(all, params)
	return all
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

func (b *bench) acquire(l lock.Locker) *lock.Lease {
	b.Helper()
	return testkit.Must(l.Acquire(b.Context(), name))(b)
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

// A worker has a Locker and the connection under it.
type worker struct {
	lock.Locker
	conn *redisconn.Conn
}

// setting is what a test sets of a worker.
type setting struct {
	through *backend.Server // by default the bench's own
	steps   step.Observer
	params  param.Values
	now     func() time.Time
	dial    func(context.Context) (*redis.Client, error) // for its connection in the background
	process *lock.ProcessState
}

// worker opens a lock, with "+watchdog" behind its name for one that is renewed
// in the background.
func (b *bench) worker(lockName string, s setting) *worker {
	b.Helper()
	bare, watched := strings.CutSuffix(lockName, "+watchdog")
	k := kind(b, bare)
	if watched {
		var err error
		k, err = lock.WithWatchdog(k)
		b.must(err)
	}
	return b.open(k, s)
}

// open opens a lock, with connections that end with the test.
func (b *bench) open(k lock.Kind, s setting) *worker {
	b.Helper()
	if s.through == nil {
		s.through = b.server
	}
	if s.dial == nil {
		s.dial = dialer(s.through)
	}

	conn := testkit.Dial(b, s.through)
	l, err := k.New(lock.Env{
		ClientEnv: market.ClientEnv{Steps: s.steps, Now: s.now},
		Redis:     conn.Client,
		NewClient: s.dial,
		Key:       b.keys.Lock,
		Params:    unhurried(s.params),
		Process:   s.process,
	})
	b.must(err)

	if c, ok := l.(io.Closer); ok {
		b.Cleanup(func() {
			_ = c.Close()
		})
	}
	return &worker{l, conn}
}

// dialer opens connections to a server.
func dialer(s *backend.Server) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		c, err := s.Dial(ctx)
		if err != nil {
			return nil, err
		}
		return c.Client, nil
	}
}

func (b *bench) must(err error) {
	b.Helper()
	testkit.Succeeds(b, err)
}

// try takes a lock that has to be free, or seems to be.
func (b *bench) try(w *worker) *lock.Lease {
	b.Helper()
	lease, err := w.Try(b.Context(), name)
	b.must(err)
	return lease
}

// expire makes the lock's TTL pass.
func (b *bench) expire() {
	b.Helper()
	if ttl := b.ttl(); ttl <= 0 {
		b.Fatalf("the lock never expires: its TTL is %d", ttl)
	}
	b.must(b.conn.Del(b.Context(), b.keys.Lock(name)).Err())
}

// The TTLs of a key that has none, and of one that does not exist.
const (
	endless time.Duration = -1
	gone    time.Duration = -2
)

func (b *bench) ttl() time.Duration {
	b.Helper()
	ttl, err := b.conn.PTTL(b.Context(), b.keys.Lock(name)).Result()
	b.must(err)
	return ttl
}

// free checks that nobody holds the lock.
func (b *bench) free() {
	b.Helper()
	if ttl := b.ttl(); ttl != gone {
		b.Errorf("the lock is still held, with a TTL of %s", ttl)
	}
}

// acquisition is what became of a Try in a goroutine of its own.
type acquisition struct {
	lease *lock.Lease
	err   error
}

// trying starts a Try and returns when it is held at the gate.
func (b *bench) trying(w *worker, gate *step.Gate) <-chan acquisition {
	b.Helper()
	result := make(chan acquisition, 1)
	b.Cleanup(gate.Open)
	go func() {
		lease, err := w.Try(b.Context(), name)
		result <- acquisition{lease, err}
	}()

	select {
	case <-gate.Reached():
	case got := <-result:
		b.Fatalf("Try did not come to the gate: %v", got.err)
	}
	return result
}

// releasing starts to release a lease and returns when that is held at the gate.
func (b *bench) releasing(lease *lock.Lease, gate *step.Gate) <-chan error {
	b.Helper()
	result := make(chan error, 1)
	b.Cleanup(gate.Open)
	go func() {
		result <- lease.Release(b.Context())
	}()

	select {
	case <-gate.Reached():
	case err := <-result:
		b.Fatalf("the release did not come to the gate: %v", err)
	}
	return result
}

// wants checks an error.
func wants(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// soon is how long a test waits for what should happen at once, on a busy machine too.
const soon = time.Minute

func release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func releaseFindsItLost(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
}

// until waits for something that must come true soon.
func until(t testing.TB, what string, true func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); !true(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %s", soon, what)
		}
	}
}

// whenever is an observer that does something whenever its worker comes to a step.
func whenever(at step.Name, do func()) step.Observer {
	return func(_ context.Context, now step.Name) {
		if now == at {
			do()
		}
	}
}

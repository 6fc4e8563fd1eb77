package etcdlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(8)
	testkit.VerifyNoLeaks(m)
}

const name = "item"

// bench is where lockers meet: a server, the keys of one market, and a client of the test's own.
type bench struct {
	testing.TB
	addrs []string
	keys  market.Keys
	admin *clientv3.Client
}

func newBench(t testing.TB, addrs []string) *bench {
	b := &bench{TB: t, addrs: addrs, keys: testkit.Keys(t)}
	client, err := clientv3.New(clientv3.Config{Endpoints: b.addrs, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	b.admin = client
	t.Cleanup(func() { _ = client.Close() })
	return b
}

func (b *bench) env() lock.Env {
	// A lease lasts as long as a busy machine may stop.
	return lock.Env{Key: b.keys.Lock, Servers: lock.Servers{Etcd: b.addrs}, Params: param.Values{ttlParam.Name: "1m0s"}}
}

func (b *bench) open(env lock.Env) *locker {
	b.Helper()
	l, err := Kind().New(env)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.(*locker).Close(); err != nil {
			b.Error(err)
		}
	})
	return l.(*locker)
}

func (b *bench) proxied(env lock.Env) (*locker, *wire.Proxy) {
	b.Helper()
	p := testkit.StartProxies(b, b.addrs[:1])[0]
	env.Servers.Etcd = []string{p.Addr()}
	return b.open(env), p
}

func (b *bench) acquire(l lock.Locker) lock.Lease {
	b.Helper()
	lease, err := l.Acquire(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

func (b *bench) release(lease lock.Lease) {
	b.Helper()
	if err := lease.Release(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// line is the keys of those in line for a lock, the oldest first.
func (b *bench) line(name string) []clientv3.LeaseID {
	b.Helper()
	prefix := (&locker{key: b.keys.Lock}).prefix(name) + "/"
	got, err := b.admin.Get(context.Background(), prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		b.Fatal(err)
	}
	var leases []clientv3.LeaseID
	for _, kv := range got.Kvs {
		leases = append(leases, clientv3.LeaseID(kv.Lease))
	}
	return leases
}

// soon is how long a test waits for what should happen soon, on a busy machine too.
const soon = time.Minute

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}

// The tests that need no more than one server share it, and wait at the same time.
func TestOneServer(t *testing.T) {
	t.Parallel()
	addrs := testkit.Etcd(t, 1).Addrs()
	for _, c := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"fence is the create revision", fenceIsTheCreateRevision},
		{"holder is not let in again", holderIsNotLetInAgain},
		{"names that begin alike do not exclude each other", namesThatBeginAlikeDoNotExcludeEachOther},
		{"cancelled wait leaves no key", cancelledWaitLeavesNoKey},
		{"cancelled creation leaves no key", cancelledCreationLeavesNoKey},
		{"session expiry cancels the lease", sessionExpiryCancelsTheLease},
		{"another session", anotherSession},
		{"a release without an answer", releaseWithoutAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newBench(t, addrs))
		})
	}
}

func fenceIsTheCreateRevision(t *testing.T, b *bench) {
	l := b.open(b.env())
	var last int64
	for range 3 {
		held := b.acquire(l)
		got, err := b.admin.Get(t.Context(), held.(*lease).key)
		if err != nil || len(got.Kvs) != 1 || got.Kvs[0].CreateRevision != held.(lock.Fencer).Fence() {
			t.Errorf("the fence is %d, and the key %v, %v", held.(lock.Fencer).Fence(), got.Kvs, err)
		}
		if n := held.(lock.Fencer).Fence(); n <= last {
			t.Errorf("the fence is %d, after %d", n, last)
		}
		last = held.(lock.Fencer).Fence()
		b.release(held)
	}
}

func holderIsNotLetInAgain(t *testing.T, b *bench) {
	l := b.open(b.env())
	lease := b.acquire(l)
	if _, err := l.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the holder's Try: %v, want %v", err, lock.ErrHeld)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, name); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrTimeout) {
		t.Errorf("the holder's Acquire: %v, want %v", err, context.DeadlineExceeded)
	}
	b.release(lease)
	b.release(b.acquire(l))
}

func namesThatBeginAlikeDoNotExcludeEachOther(t *testing.T, b *bench) {
	l, other := b.open(b.env()), b.open(b.env())
	for _, names := range [][2]string{{"a", "a/b"}, {"a/", "a"}, {"", "/"}} {
		first, err := l.Try(t.Context(), names[0])
		if err != nil {
			t.Fatal(err)
		}
		second, err := other.Try(t.Context(), names[1])
		if err != nil {
			t.Fatalf("%q excludes %q: %v", names[0], names[1], err)
		}
		b.release(first)
		b.release(second)
	}
}

func cancelledWaitLeavesNoKey(t *testing.T, b *bench) {
	lease := b.acquire(b.open(b.env()))
	other := b.open(b.env())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := other.Acquire(ctx, name)
		done <- err
	}()
	until(t, "two are in line", func() bool { return len(b.line(name)) == 2 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v, want %v", err, context.Canceled)
	}
	if n := len(b.line(name)); n != 1 {
		t.Errorf("after it gave up, %d are in line, want the holder alone", n)
	}
	b.release(lease)
	if n := len(b.line(name)); n != 0 {
		t.Errorf("after the release, %d are in line", n)
	}
}

// The reply to the creation of the key is lost, and the caller does not wait for it.
func cancelledCreationLeavesNoKey(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	p.SetFault(wire.Down, wire.Fault{Drop: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(ctx, name)
		done <- err
	}()
	until(t, "the key is made", func() bool { return len(b.line(name)) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Try: %v, want %v", err, context.Canceled)
	}
	p.Heal()
	until(t, "the key is deleted", func() bool { return len(b.line(name)) == 0 })
}

func sessionExpiryCancelsTheLease(t *testing.T, b *bench) {
	env := b.env()
	env.Params = param.Values{"ttl": "8s"} // of which a quarter is what a busy machine may take to notice
	l, p := b.proxied(env)
	lease := b.acquire(l)
	other, next := b.open(b.env()), make(chan lock.Lease, 1)
	go func() {
		lease, err := other.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	until(t, "two are in line", func() bool { return len(b.line(name)) == 2 })
	if lease.Context().Err() != nil {
		t.Error("the lease has ended before the connection was lost")
	}
	p.Disconnect()
	var successor lock.Lease
	select {
	case <-lease.Context().Done():
	case successor = <-next:
		if lease.Context().Err() == nil {
			t.Fatal("someone else has the lock, and its holder does not know")
		}
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the lease ended because of %v, want %v", cause, lock.ErrLost)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
	if successor == nil {
		successor = <-next
	}
	b.release(successor)
}

// A worker whose session was revoked begins another.
func anotherSession(t *testing.T, b *bench) {
	l := b.open(b.env())
	lease := b.acquire(l)
	if _, err := b.admin.Revoke(t.Context(), b.line(name)[0]); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done()
	again := b.acquire(l)
	if again.Context().Err() != nil {
		t.Error("the new lease has ended")
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release of the old lease: %v, want %v", err, lock.ErrLost)
	}
	b.release(again)
}

// The reply to a release is lost, and its worker takes the lock again. The library's Unlock, sent again, deletes the
// newer key (etcd-io/etcd#22082).
func releaseWithoutAnswer(t *testing.T, b *bench) {
	for how, left := range map[string]int{"compare": 1, "unlock": 0} {
		env := b.env()
		env.Params = param.Values{"release": how}
		l, p := b.proxied(env)
		lease := b.acquire(l)
		p.SetFault(wire.Down, wire.Fault{Hold: true})
		released := make(chan error)
		go func() { released <- lease.Release(context.Background()) }()
		until(t, "the release is applied", func() bool { return len(b.line(name)) == 0 })
		p.Cut()
		p.Heal()
		if err := <-released; (err != nil) != (how == "unlock") {
			t.Errorf("release=%s: %v", how, err)
		}
		again := b.acquire(l)
		if n := len(b.line(name)); n != left {
			t.Errorf("release=%s: %d keys of the holder's lock, want %d", how, n, left)
		}
		_ = again.Release(context.Background())
	}
}

func TestServersAreNeeded(t *testing.T) {
	t.Parallel() // it waits for the connection to time out
	if _, err := Kind().New(lock.Env{Key: func(name string) string { return name }}); !errors.Is(err, lock.ErrServers) {
		t.Errorf("without servers: %v, want %v", err, lock.ErrServers)
	}
	for value, ok := range map[string]bool{"5ms": false, "1500ms": false, "1s": true, "1m": true, "0s": false} {
		if _, err := ttlParam.Normalize(value); (err == nil) != ok {
			t.Errorf("ttl=%s: %v", value, err)
		}
	}
	p := testkit.StartProxies(t, []string{"127.0.0.1:1"})[0]
	_, err := Kind().New(lock.Env{Key: func(name string) string { return name }, Servers: lock.Servers{Etcd: []string{p.Addr()}}})
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), p.Addr()) {
		t.Errorf("without an answer: %v, want %v and the address", err, ErrUnreachable)
	}
}

// With all hooks there, no promise stays unchecked. The servers are a cluster, of which the leader is stopped.
func TestConforms(t *testing.T) {
	c := testkit.Etcd(t, 3)
	b := newBench(t, c.Addrs())
	var clients sync.Map // of a locker: its testkit.Proxies
	report := locktest.Run(t, locktest.Factory{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			env, proxies := b.env(), testkit.StartProxies(t, b.addrs)
			env.Servers.Etcd = proxies.Addrs()
			env.Steps, env.Now = w.Steps, w.Now
			env.Params = param.Values{"ttl": min(w.TTL, longest).String(), "timeout": w.Timeout.String()}
			l, err := Kind().New(env)
			if err != nil {
				t.Fatal(err)
			}
			clients.Store(l, proxies)
			return l
		},
		Lose: func(t testing.TB, name string) {
			line := b.line(name)
			if len(line) == 0 {
				return // its session has expired by itself
			}
			if _, err := b.admin.Revoke(context.Background(), line[0]); err != nil &&
				!errors.Is(err, rpctypes.ErrLeaseNotFound) {
				t.Fatal(err)
			}
		},
		Crash: func(_ testing.TB, l lock.Locker) {
			proxies, _ := clients.Load(l)
			proxies.(testkit.Proxies).Disconnect()
		},
		StopNode: func(t testing.TB) func() {
			leader, err := c.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Kill(leader); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := c.Restart(t.Context(), leader); err != nil {
					t.Fatal(err)
				}
			}
		},
		Queued:   func(_ testing.TB, name string) int { return max(0, len(b.line(name))-1) },
		Clock:    true,
		Renewing: true,
		Parallel: true,
		TTL:      time.Second, // the shortest
		Patience: soon,        // an election, and a client that looks for another member, on a busy machine
	})
	if unchecked := report.Unchecked(); len(unchecked) > 0 {
		t.Errorf("unchecked: %q", unchecked)
	}
}

// longest is the longest TTL of the suite's workers: it outlasts an election on a busy machine.
const longest = time.Minute

func BenchmarkAcquireRelease(b *testing.B) {
	bench := newBench(b, testkit.Etcd(b, 1).Addrs())
	l := bench.open(bench.env())
	for b.Loop() {
		bench.release(bench.acquire(l))
	}
}

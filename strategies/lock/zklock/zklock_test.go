package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/backendtest/plug"
	"github.com/marketsim/marketsim/market/backend/zookeeper/zookeepertest"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "item"

// bench is where lockers meet: servers, the keys of one market, and a session of the test's own.
type bench struct {
	testing.TB
	addrs   []string
	keys    market.Keys
	admin   *zk.Conn
	process *lock.Process
	crashes bool // sessions are left to expire
}

func newBench(t testing.TB, addrs []string) *bench {
	b := &bench{TB: t, addrs: addrs, keys: backendtest.Keys(t), process: &lock.Process{}}
	s, err := connect(addrs, ttlDefault, connectTimeout)
	if err != nil {
		t.Fatal(err)
	}
	b.admin = s.conn
	t.Cleanup(func() {
		if err := b.process.Close(); err != nil {
			t.Error(err)
		}
		if b.crashes {
			until(t, "the crashed sessions expire", func() bool {
				return tidier{servers: addrs, root: newTree(b.keys.Lock).root}.Close() == nil && len(b.children("/")) == 1
			})
		}
		if left := b.children("/"); !slices.Equal(left, []string{"zookeeper"}) {
			t.Errorf("left behind: %q", left)
		}
		s.close()
	})
	b.release(b.acquire(b.open(b.env()))) // makes the lock's node; what tidies up has no plug to be pulled
	return b
}

func standalone(t testing.TB) *bench { return newBench(t, zookeepertest.Start(t, 1).Addrs()) }

func (b *bench) env() lock.Env {
	return lock.Env{Key: b.keys.Lock, Servers: lock.Servers{ZooKeeper: b.addrs}, Process: b.process}
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

// plugged opens a locker whose connection can be cut.
func (b *bench) plugged(env lock.Env) (*locker, *plug.Plug) {
	b.Helper()
	p := plug.Start(b, b.addrs[0])
	env.Servers.ZooKeeper = []string{p.Addr()}
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

func (b *bench) children(path string) []string {
	b.Helper()
	names, _, err := b.admin.Children(path)
	if err != nil && err != zk.ErrNoNode {
		b.Fatal(err)
	}
	return names
}

// line is how many nodes are in line for the lock.
func (b *bench) line() int { return len(b.children(newTree(b.keys.Lock).dir(name))) }

// until polls until a condition holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func fence(l lock.Lease) int64 { return l.(lock.Fencer).Fence() }

func TestFenceIsTheCzxid(t *testing.T) {
	b := standalone(t)
	l := b.open(b.env())
	lease := b.acquire(l)
	dir := newTree(b.keys.Lock).dir(name)
	_, stat, err := b.admin.Get(dir + "/" + b.children(dir)[0])
	if err != nil || stat.Czxid != fence(lease) || fence(lease) == 0 {
		t.Errorf("the fence is %d, and the node's czxid %d, %v", fence(lease), stat.Czxid, err)
	}
	first := fence(lease)
	b.release(lease)
	if err := b.admin.Delete(dir, -1); err != nil { // the sequence starts again
		t.Fatal(err)
	}
	lease = b.acquire(l)
	if n := number(b.children(dir)[0]); n != 0 {
		t.Errorf("the number of the first node of a new parent is %d", n)
	}
	if fence(lease) <= first {
		t.Errorf("the fence after the parent was made anew is %d, and it was %d before", fence(lease), first)
	}
	b.release(lease)
}

func TestCancelledWaitLeavesNoNode(t *testing.T) {
	b := standalone(t)
	lease := b.acquire(b.open(b.env()))
	ctx, cancel := context.WithCancel(t.Context())
	env := b.env()
	env.Steps = func(_ context.Context, at step.Name) {
		if at == step.Waiting {
			if n := b.line(); n != 2 {
				t.Errorf("while one waits, %d are in line", n)
			}
			cancel()
		}
	}
	if _, err := b.open(env).Acquire(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v, want %v", err, context.Canceled)
	}
	if n := b.line(); n != 1 {
		t.Errorf("after it gave up, %d are in line, want the holder alone", n)
	}
	b.release(lease)
	if n := b.line(); n != 0 {
		t.Errorf("after the release, %d are in line", n)
	}
}

// The reply to the creation of the node is lost, with the connection.
func TestLostReplyIsFoundAgain(t *testing.T) {
	b := standalone(t)
	l, p := b.plugged(b.env())
	p.Mute()
	done := make(chan lock.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		done <- lease
	}()
	until(t, "the node is made", func() bool { return b.line() == 1 })
	p.Cut()
	lease := <-done
	if n := b.line(); n != 1 {
		t.Errorf("%d nodes are in line, want the one that was made", n)
	}
	b.release(lease)
}

// The reply is lost and the caller does not wait for it.
func TestCancelledCreationLeavesNoNode(t *testing.T) {
	b := standalone(t)
	l, p := b.plugged(b.env())
	p.Mute()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(ctx, name)
		done <- err
	}()
	until(t, "the node is made", func() bool { return b.line() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Try: %v, want %v", err, context.Canceled)
	}
	p.Cut()
	until(t, "the node is removed", func() bool { return b.line() == 0 })
}

func TestSessionExpiryCancelsTheLease(t *testing.T) {
	b := standalone(t)
	env := b.env()
	env.Params = param.Values{"ttl": "1s"}
	l, p := b.plugged(env)
	lease := b.acquire(l)
	next := make(chan lock.Lease, 1)
	waiting := step.Hold(step.Waiting)
	waiting.Open()
	env = b.env()
	env.Steps = waiting.Observe
	other := b.open(env)
	go func() {
		lease, err := other.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	<-waiting.Reached()
	if lease.Context().Err() != nil {
		t.Error("the lease has ended before the connection was lost")
	}
	p.Pull()
	select {
	case <-lease.Context().Done():
	case <-next:
		t.Fatal("someone else has the lock, and its holder does not know")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the lease ended because of %v, want %v", cause, lock.ErrLost)
	}
	successor := <-next
	if fence(successor) <= fence(lease) {
		t.Errorf("the successor's fence is %d, after %d", fence(successor), fence(lease))
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
	b.release(successor)
}

// A connection that comes back in time costs nothing.
func TestShortCutIsSurvived(t *testing.T) {
	b := standalone(t)
	l, p := b.plugged(b.env())
	lease := b.acquire(l)
	p.Cut()
	b.release(lease) // the client connects again
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
}

// The server goes on hearing the holder, who hears nothing: that is worth as little as a connection that was cut.
func TestMutedHolderLetsGoBeforeTheServerDoes(t *testing.T) {
	b := standalone(t)
	const ttl = 3 * time.Second
	env := b.env()
	env.Params = param.Values{"ttl": ttl.String()}
	l, p := b.plugged(env)
	lease := b.acquire(l)
	muted := time.Now()
	p.Mute()
	<-lease.Context().Done()
	if took := time.Since(muted); took > ttl*7/8 {
		t.Errorf("the lease ended %v after the last answer at the latest; the session may expire after %v", took, ttl)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("it ended because of %v, want %v", cause, lock.ErrLost)
	}
	p.Cut()
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
	b.release(b.acquire(l)) // by the same worker, in the same session or another
}

// A silence that ends in time costs nothing, though a reply was lost in it.
func TestShortSilenceOfAServerIsSurvived(t *testing.T) {
	b := standalone(t)
	l, p := b.plugged(b.env())
	lease := b.acquire(l)
	p.Mute()
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(t.Context(), name)
		done <- err
	}()
	until(t, "the place is taken", func() bool { return b.line() == 2 })
	p.Cut()
	<-done // held, or not known because of the cut
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
	b.release(lease)
}

func TestLeaderKilled(t *testing.T) {
	e := zookeepertest.Start(t, 3)
	b := newBench(t, e.Addrs())
	holder := b.open(b.env())
	if !holder.Promises().SurvivesNodeLoss {
		t.Error("an ensemble should promise to survive the loss of a node")
	}
	lease := b.acquire(holder)
	env := b.env()
	env.Params = param.Values{"timeout": "30s"}
	waiting := step.Hold(step.Waiting)
	waiting.Open()
	env.Steps = waiting.Observe
	other, next := b.open(env), make(chan lock.Lease, 1)
	go func() {
		lease, err := other.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	<-waiting.Reached()
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(leader); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b.release(lease)
	second := <-next
	t.Logf("the lock changed hands %v after the leader was killed", time.Since(start))
	if second == nil {
		return
	}
	if fence(second) <= fence(lease) {
		t.Errorf("the fence is %d, after %d", fence(second), fence(lease))
	}
	b.release(second)
}

func TestServersAreNeeded(t *testing.T) {
	if _, err := Kind().New(lock.Env{Key: func(name string) string { return name }}); !errors.Is(err, lock.ErrServers) {
		t.Errorf("without servers: %v, want %v", err, lock.ErrServers)
	}
	p := plug.Start(t, "127.0.0.1:1")
	p.Pull()
	if _, err := connect([]string{p.Addr()}, time.Second, 50*time.Millisecond); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), p.Addr()) {
		t.Errorf("without an answer: %v, want %v and the address", err, ErrUnreachable)
	}
}

func TestPaths(t *testing.T) {
	key := func(name string) string { return "m:{a/b}:lock:" + name }
	tree := newTree(key)
	seen := map[string]string{}
	for _, name := range []string{"", ".", "..", "%", "%2F", "/", "a/b", "a%2Fb", "a b", "é", "users:1", "a\x00b", "..."} {
		dir := tree.dir(name)
		if other, ok := seen[dir]; ok {
			t.Errorf("%q and %q share %s", name, other, dir)
		}
		seen[dir] = name
		if rest := strings.TrimPrefix(dir, tree.root+"/"); strings.Contains(rest, "/") || rest == "" || rest == "." || rest == ".." {
			t.Errorf("the path of %q is %s", name, dir)
		}
	}
	if n := strings.Count(tree.root, "/"); n != 1 {
		t.Errorf("the root is %s", tree.root)
	}
}

// With all hooks there, no promise stays unchecked. The servers are an ensemble, of which the leader is stopped.
func TestConforms(t *testing.T) {
	e := zookeepertest.Start(t, 3)
	b := newBench(t, e.Addrs())
	b.crashes = true
	ways := plug.NewBoard[lock.Locker](b.addrs)
	report := locktest.Run(t, locktest.Subject{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			env, plugs := b.env(), ways.Plugs(t)
			env.Servers.ZooKeeper = plugs.Addrs()
			env.Steps, env.Now = w.Steps, w.Now
			env.Params = param.Values{"ttl": min(w.TTL, longest).String(), "timeout": w.Timeout.String()}
			l, err := Kind().New(env)
			if err != nil {
				t.Fatal(err)
			}
			ways.Connect(l, plugs)
			return l
		},
		Lose: func(t testing.TB, name string) {
			owner := b.holder(name)
			ways.Pull(func(l lock.Locker) bool { return l.(*locker).session.conn.SessionID() == owner })
		},
		Crash: func(_ testing.TB, l lock.Locker) { ways.Pull(func(other lock.Locker) bool { return other == l }) },
		StopNode: func(t testing.TB) func() {
			leader, err := e.Leader(t.Context())
			if err == nil {
				err = e.Kill(leader)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := e.Restart(t.Context(), leader); err != nil {
					t.Fatal(err)
				}
			}
		},
		Clock:    true,
		Renewing: true,
		TTL:      time.Second,
	})
	if unchecked := report.Unchecked(); len(unchecked) > 0 {
		t.Errorf("unchecked: %q", unchecked)
	}
}

// longest is the longest session timeout of the suite's workers: sessions that crash are waited for.
const longest = 3 * time.Second

// holder is the session that holds a lock.
func (b *bench) holder(name string) int64 {
	b.Helper()
	dir := newTree(b.keys.Lock).dir(name)
	first := slices.MinFunc(b.children(dir), func(x, y string) int { return number(x) - number(y) })
	_, stat, err := b.admin.Get(dir + "/" + first)
	if err != nil {
		b.Fatal(err)
	}
	return stat.EphemeralOwner
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			bench := newBench(b, zookeepertest.Start(b, servers).Addrs())
			l := bench.open(bench.env())
			for b.Loop() {
				bench.release(bench.acquire(l))
			}
		})
	}
}

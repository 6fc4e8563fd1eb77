package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(8)
	testkit.VerifyNoLeaks(m)
}

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
	b := &bench{TB: t, addrs: addrs, keys: testkit.Keys(t), process: &lock.Process{}}
	s, err := connect(addrs, ttlDefault, soon, bufferSize, lock.Traffic{})
	if err != nil {
		t.Fatal(err)
	}
	b.admin = s.conn
	root := newTree(b.keys.Lock).root
	t.Cleanup(func() {
		if err := b.process.Close(); err != nil {
			t.Error(err)
		}
		if b.crashes {
			until(t, "the crashed sessions expire", func() bool {
				return tidier{servers: addrs, root: root}.Close() == nil && !slices.Contains(b.children("/"), root[1:])
			})
		}
		if slices.Contains(b.children("/"), root[1:]) {
			t.Errorf("left behind: %s", root)
		}
		s.close()
	})
	b.release(b.acquire(b.open(b.env()))) // makes the lock's node; what tidies up connects without a proxy
	return b
}

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

// proxied opens a locker whose connection can be cut.
func (b *bench) proxied(env lock.Env) (*locker, *wire.Proxy) {
	b.Helper()
	p := testkit.StartProxies(b, b.addrs[:1])[0]
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

// soon is how long a test waits for what should happen soon, on a busy machine too.
const soon = time.Minute

// until polls until a condition holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}

func fence(l lock.Lease) int64 { return l.(lock.Fencer).Fence() }

// The tests that need no more than one server share it, and wait at the same time.
func TestOneServer(t *testing.T) {
	t.Parallel()
	addrs := testkit.ZooKeeper(t, 1).Addrs()
	t.Run("shared", func(t *testing.T) {
		for _, c := range []struct {
			name string
			test func(*testing.T, *bench)
		}{
			{"fence is the czxid", fenceIsTheCzxid},
			{"cancelled wait leaves no node", cancelledWaitLeavesNoNode},
			{"lost reply is found again", lostReplyIsFoundAgain},
			{"cancelled creation leaves no node", cancelledCreationLeavesNoNode},
			{"session expiry cancels the lease", sessionExpiryCancelsTheLease},
			{"short cut is survived", shortCutIsSurvived},
			{"muted holder lets go before the server does", mutedHolderLetsGoBeforeTheServerDoes},
			{"short silence of a server is survived", shortSilenceOfAServerIsSurvived},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.test(t, newBench(t, addrs))
			})
		}
	})
	b := newBench(t, addrs)
	if left := b.children("/"); len(left) != 2 { // what ZooKeeper has, and the root of this bench
		t.Errorf("left behind: %q", left)
	}
}

func fenceIsTheCzxid(t *testing.T, b *bench) {
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

func cancelledWaitLeavesNoNode(t *testing.T, b *bench) {
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
func lostReplyIsFoundAgain(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	p.SetFault(wire.Down, wire.Fault{Drop: true})
	done := make(chan lock.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		done <- lease
	}()
	until(t, "the node is made", func() bool { return b.line() == 1 })
	p.Heal()
	lease := <-done
	if n := b.line(); n != 1 {
		t.Errorf("%d nodes are in line, want the one that was made", n)
	}
	b.release(lease)
}

// The reply is lost and the caller does not wait for it.
func cancelledCreationLeavesNoNode(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	p.SetFault(wire.Down, wire.Fault{Drop: true})
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
	p.Heal()
	until(t, "the node is removed", func() bool { return b.line() == 0 })
}

func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := testkit.ZooKeeper(t, 3)
	b := newBench(t, e.Addrs())
	env := b.env()
	env.Params = param.Values{"ttl": "40s"} // it outlasts an election on a busy machine
	holder := b.open(env)
	if !holder.Promises().SurvivesNodeLoss {
		t.Error("an ensemble should promise to survive the loss of a node")
	}
	lease := b.acquire(holder)
	env = b.env()
	env.Params = param.Values{"timeout": "2m0s"}
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
	p := testkit.StartProxies(t, []string{"127.0.0.1:1"})[0]
	_, err := connect([]string{p.Addr()}, time.Second, 50*time.Millisecond, bufferSize, lock.Traffic{})
	if !errors.Is(err, ErrUnreachable) ||
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
	e := testkit.ZooKeeper(t, 3)
	b := newBench(t, e.Addrs())
	b.crashes = true
	var clients sync.Map // of a locker: its testkit.Proxies
	report := locktest.Run(t, locktest.Factory{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			env, proxies := b.env(), testkit.StartProxies(t, b.addrs)
			env.Servers.ZooKeeper = proxies.Addrs()
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
			owner, held := b.holder(name)
			if !held {
				return // its session has expired by itself
			}
			clients.Range(func(l, proxies any) bool {
				if l.(*locker).session.conn.SessionID() == owner {
					proxies.(testkit.Proxies).Disconnect()
				}
				return true
			})
		},
		Crash: func(_ testing.TB, l lock.Locker) {
			proxies, _ := clients.Load(l)
			proxies.(testkit.Proxies).Disconnect()
		},
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
		Parallel: true,
		TTL:      time.Second,
	})
	if unchecked := report.Unchecked(); len(unchecked) > 0 {
		t.Errorf("unchecked: %q", unchecked)
	}
}

// longest is the longest session timeout of the suite's workers: it outlasts an election on a busy machine, and sessions
// that crash are waited for.
const longest = 20 * time.Second

// holder is the session that holds a lock, if there is one.
func (b *bench) holder(name string) (session int64, held bool) {
	b.Helper()
	dir := newTree(b.keys.Lock).dir(name)
	line := b.children(dir)
	if len(line) == 0 {
		return 0, false
	}
	first := slices.MinFunc(line, func(x, y string) int { return number(x) - number(y) })
	_, stat, err := b.admin.Get(dir + "/" + first)
	if err == zk.ErrNoNode {
		return 0, false
	}
	if err != nil {
		b.Fatal(err)
	}
	return stat.EphemeralOwner, true
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			bench := newBench(b, testkit.ZooKeeper(b, servers).Addrs())
			l := bench.open(bench.env())
			for b.Loop() {
				bench.release(bench.acquire(l))
			}
		})
	}
}

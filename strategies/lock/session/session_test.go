package session

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(16) // they mostly wait
	testkit.VerifyNoLeaks(m)
}

const name = "item"

// product is a kind of servers and its lock.
type product struct {
	kind  lock.Kind
	start func(t testing.TB, n int) *servers.Ensemble
	at    func(addrs []string) lock.Servers
	lines func(b *bench) (line func(name string) []spot)
	tests map[string]func(*testing.T, *bench) // of this product alone
}

// spot is a place in line, as the servers have it.
type spot struct{ session, fence int64 }

var products = []product{
	{ZooKeeper(), testkit.ZooKeeper, func(addrs []string) lock.Servers { return lock.Servers{ZooKeeper: addrs} }, zooLines,
		map[string]func(*testing.T, *bench){
			"the sequence starts again":  sequenceStartsAgain,
			"lost reply is found again":  lostReplyIsFoundAgain,
			"short silence is survived":  shortSilenceOfAServerIsSurvived,
			"the only server is stopped": onlyServerIsStopped,
		}},
	{Etcd(), testkit.Etcd, func(addrs []string) lock.Servers { return lock.Servers{Etcd: addrs} }, etcdLines,
		map[string]func(*testing.T, *bench){
			"revoked session":             revokedSession,
			"a release without an answer": releaseWithoutAnswer,
		}},
}

// bench is where lockers meet: servers, the keys of one market, and a client of the test's own.
type bench struct {
	testing.TB
	product
	addrs   []string
	keys    market.Keys
	process *lock.Process
	line    func(name string) []spot // the oldest first
	zoo     *zk.Conn
	etcd    *clientv3.Client
}

func newBench(t testing.TB, p product, addrs []string) *bench {
	b := &bench{TB: t, product: p, addrs: addrs, keys: testkit.Keys(t), process: &lock.Process{}}
	b.line = p.lines(b)
	t.Cleanup(func() {
		if err := b.process.Close(); err != nil {
			t.Error(err)
		}
	})
	b.release(b.acquire(b.open(b.env()))) // makes the lock's node
	return b
}

func zooLines(b *bench) func(string) []spot {
	c, err := joinZoo(&locker{env: b.env("ttl", time.Minute.String())}, b.addrs, soon)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.close() })
	b.zoo = c.(*zooClient).conn
	return func(name string) (line []spot) {
		dir := zooDir(b.keys.Lock, name)
		names := b.children(dir)
		slices.SortFunc(names, func(x, y string) int { return strings.Compare(number(x), number(y)) })
		for _, name := range names {
			_, stat, err := b.zoo.Get(dir + "/" + name)
			if err != nil && err != zk.ErrNoNode {
				b.Fatal(err)
			}
			if err == nil {
				line = append(line, spot{stat.EphemeralOwner, stat.Czxid})
			}
		}
		return line
	}
}

func (b *bench) children(path string) []string {
	b.Helper()
	names, _, err := b.zoo.Children(path)
	if err != nil && err != zk.ErrNoNode {
		b.Fatal(err)
	}
	return names
}

func etcdLines(b *bench) func(string) []spot {
	client, err := clientv3.New(clientv3.Config{Endpoints: b.addrs, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	b.etcd = client
	return func(name string) (line []spot) {
		got, err := client.Get(context.Background(), url.PathEscape(b.keys.Lock(name))+"/", clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			b.Fatal(err)
		}
		for _, kv := range got.Kvs {
			line = append(line, spot{kv.Lease, kv.CreateRevision})
		}
		return line
	}
}

// env has a TTL for as long as a busy machine may stop, or another.
func (b *bench) env(params ...string) lock.Env {
	values := param.Values{"ttl": "30s"}
	for i := 0; i < len(params); i += 2 {
		values[params[i]] = params[i+1]
	}
	return lock.Env{Key: b.keys.Lock, Servers: b.at(b.addrs), Process: b.process, Params: values}
}

func (b *bench) open(env lock.Env) *locker {
	b.Helper()
	l, err := b.kind.New(env)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.(*locker).Close(); err != nil {
			b.Error(err)
		}
	})
	if zoo, ok := l.(*locker).client.(*zooClient); ok { // a busy machine may be silent for longer than a user should wait
		zoo.only.bears(soon)
	}
	return l.(*locker)
}

// bears sets how long a server may be silent, where there is one.
func (o *onlyServer) bears(patience time.Duration) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.patience = patience
	}
}

// proxied opens a locker whose connection can be cut.
func (b *bench) proxied(env lock.Env) (*locker, *wire.Proxy) {
	b.Helper()
	p := testkit.StartProxies(b, b.addrs[:1])
	env.Servers = b.at(p.Addrs())
	return b.open(env), p[0]
}

func (b *bench) acquire(l lock.Locker) *lock.Lease {
	b.Helper()
	lease, err := l.Acquire(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

func (b *bench) release(lease *lock.Lease) {
	b.Helper()
	if err := lease.Release(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// lost releases a lease that was lost, which its holder knows.
func (b *bench) lost(lease *lock.Lease) {
	b.Helper()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		b.Errorf("the lease ended because of %v, want %v", cause, lock.ErrLost)
	}
	if err := lease.Release(b.Context()); !errors.Is(err, lock.ErrLost) {
		b.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
}

// inLine checks how many are in line.
func (b *bench) inLine(want int, when string) {
	b.Helper()
	if n := len(b.line(name)); n != want {
		b.Errorf("%s, %d are in line, want %d", when, n, want)
	}
}

// until waits until so many are in line.
func (b *bench) until(want int) {
	b.Helper()
	for deadline := time.Now().Add(soon); len(b.line(name)) != want; {
		if time.Now().After(deadline) {
			b.Fatalf("%d are not in line within %s", want, soon)
		}
	}
}

// soon is how long a test waits for what should happen soon, on a busy machine too.
const soon = time.Minute

// queue has a locker acquire in a goroutine of its own.
func (b *bench) queue(ctx context.Context, l lock.Locker) <-chan result {
	done := make(chan result, 1)
	go func() {
		lease, err := l.Acquire(ctx, name)
		done <- result{lease, err}
	}()
	return done
}

type result struct {
	lease *lock.Lease
	err   error
}

// The tests of one product share a server, and wait at the same time.
func TestOneServer(t *testing.T) {
	t.Parallel()
	common := map[string]func(*testing.T, *bench){
		"fence is the server's":              fenceIsTheServers,
		"holder is not let in again":         holderIsNotLetInAgain,
		"names that begin alike":             namesThatBeginAlike,
		"cancelled wait leaves nothing":      cancelledWaitLeavesNothing,
		"cancelled creation leaves nothing":  cancelledCreationLeavesNothing,
		"session expiry cancels the lease":   sessionExpiryCancelsTheLease,
		"short cut is survived":              shortCutIsSurvived,
		"muted holder lets go before others": mutedHolderLetsGoBeforeTheServerDoes,
	}
	for _, p := range products {
		t.Run(p.kind.Name, func(t *testing.T) {
			t.Parallel()
			addrs := p.start(t, 1).Addrs()
			for _, tests := range []map[string]func(*testing.T, *bench){common, p.tests} {
				for name, test := range tests {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, newBench(t, p, addrs))
					})
				}
			}
		})
	}
}

func fenceIsTheServers(t *testing.T, b *bench) {
	l := b.open(b.env())
	var last int64
	for range 3 {
		held := b.acquire(l)
		line := b.line(name)
		if len(line) != 1 || line[0].fence != held.Fence || held.Fence <= last {
			t.Errorf("the fence is %d after %d, and in line are %v", held.Fence, last, line)
		}
		last = held.Fence
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

func namesThatBeginAlike(t *testing.T, b *bench) {
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

func cancelledWaitLeavesNothing(t *testing.T, b *bench) {
	lease := b.acquire(b.open(b.env()))
	ctx, cancel := context.WithCancel(t.Context())
	done := b.queue(ctx, b.open(b.env()))
	b.until(2)
	cancel()
	if r := <-done; !errors.Is(r.err, context.Canceled) {
		t.Errorf("Acquire: %v, want %v", r.err, context.Canceled)
	}
	b.inLine(1, "after it gave up")
	b.release(lease)
	b.inLine(0, "after the release")
}

// The reply to the creation of the place is lost, and the caller does not wait for it.
func cancelledCreationLeavesNothing(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	p.HoldReplies()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(ctx, name)
		done <- err
	}()
	b.until(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Try: %v, want %v", err, context.Canceled)
	}
	p.Cut()
	p.Heal()
	b.until(0)
}

func sessionExpiryCancelsTheLease(t *testing.T, b *bench) {
	l, p := b.proxied(b.env("ttl", "8s")) // of which a quarter is what a busy machine may take to notice
	lease := b.acquire(l)
	next := b.queue(t.Context(), b.open(b.env("timeout", soon.String())))
	b.until(2)
	if lease.Context().Err() != nil {
		t.Error("the lease has ended before the connection was lost")
	}
	p.Disconnect()
	successor := <-next
	if lease.Context().Err() == nil {
		t.Error("someone else has the lock, and its holder does not know")
	}
	if successor.err != nil {
		t.Fatal(successor.err)
	}
	if successor.lease.Fence <= lease.Fence {
		t.Errorf("the successor's fence is %d, after %d", successor.lease.Fence, lease.Fence)
	}
	b.lost(lease)
	b.release(successor.lease)
}

// A connection that comes back in time costs nothing.
func shortCutIsSurvived(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	lease := b.acquire(l)
	p.Cut()
	b.release(lease) // the client connects again
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
}

// The server goes on hearing the holder, who hears nothing: that is worth as little as a connection that was cut. A lease
// that ends late is tried again with a longer TTL, because the machine may stop for about as long as the margin.
func mutedHolderLetsGoBeforeTheServerDoes(t *testing.T, b *bench) {
	for ttl := 3 * time.Second; ; ttl *= 3 {
		l, p := b.proxied(b.env("ttl", ttl.String()))
		lease := b.acquire(l)
		muted := time.Now()
		p.HoldReplies()
		<-lease.Context().Done()
		took := time.Since(muted)
		p.Cut()
		p.Heal()
		b.lost(lease)
		b.release(b.acquire(l)) // by the same worker, in the same session or another
		if took <= ttl*7/8 {
			return
		}
		if ttl > 20*time.Second {
			t.Fatalf("the lease ended %v after the last answer at the latest; the session may expire after %v", took, ttl)
		}
	}
}

// Fences grow although ZooKeeper's sequence numbers start again.
func sequenceStartsAgain(t *testing.T, b *bench) {
	l, dir := b.open(b.env()), zooDir(b.keys.Lock, name)
	first := b.acquire(l)
	b.release(first)
	if err := b.zoo.Delete(dir, -1); err != nil {
		t.Fatal(err)
	}
	lease := b.acquire(l)
	if n := number(b.children(dir)[0]); n != "0000000000" || lease.Fence <= first.Fence {
		t.Errorf("the number of the first node of a new parent is %s, and its fence %d, after %d", n, lease.Fence, first.Fence)
	}
	b.release(lease)
}

// The reply to the creation of the node is lost, with the connection.
func lostReplyIsFoundAgain(t *testing.T, b *bench) {
	l, p := b.proxied(b.env("timeout", soon.String()))
	p.HoldReplies()
	done := b.queue(t.Context(), l)
	b.until(1)
	p.Cut()
	p.Heal()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	b.inLine(1, "after one has entered")
	b.release(r.lease)
}

// A silence that ends in time costs nothing, though a reply was lost in it.
func shortSilenceOfAServerIsSurvived(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	lease := b.acquire(l)
	p.HoldReplies()
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(t.Context(), name)
		done <- err
	}()
	b.until(2)
	p.Cut()
	p.Heal()
	<-done // held, or not known because of the cut
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
	b.release(lease)
}

// Its holder, a waiter and who comes later end soon, and say why.
func onlyServerIsStopped(t *testing.T, b *bench) {
	env := b.env("timeout", soon.String())
	l, p := b.proxied(env)
	env.Servers = b.at([]string{p.Addr()})
	waiter := b.open(env)
	for _, l := range []*locker{l, waiter} {
		l.client.(*zooClient).only.bears(silence)
	}
	lease := b.acquire(l)
	waits := b.queue(t.Context(), waiter)
	b.until(2)
	p.HoldReplies()
	began := time.Now()
	if err := lease.Release(context.Background()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("release: %v, want %v", err, ErrUnreachable)
	}
	_, err := l.Try(t.Context(), name)
	_, errAgain := l.Acquire(t.Context(), name)
	if took := time.Since(began); took > silence+env.Params.Duration(zooTTL)/3 { // a busy machine has time for it
		t.Errorf("it took %s", took)
	}
	for _, err := range []error{err, errAgain, (<-waits).err} {
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, lock.ErrTimeout) || !strings.Contains(err.Error(), p.Addr()) {
			t.Errorf("Acquire: %v, want %v at %s", err, ErrUnreachable, p.Addr())
		}
	}
	p.Heal()
	for { // it goes on as soon as there is an answer
		if lease, err := l.Acquire(t.Context(), name); err == nil {
			b.release(lease)
			return
		}
	}
}

// A worker whose session was revoked begins another.
func revokedSession(t *testing.T, b *bench) {
	l := b.open(b.env("ttl", "3s")) // of which it takes a third to notice
	lease := b.acquire(l)
	if _, err := b.etcd.Revoke(t.Context(), clientv3.LeaseID(b.line(name)[0].session)); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done()
	again := b.acquire(l)
	if again.Context().Err() != nil {
		t.Error("the new lease has ended")
	}
	b.lost(lease)
	b.release(again)
}

// The reply to a release is lost, and its worker takes the lock again. The library's Unlock, sent again, deletes the
// newer key (etcd-io/etcd#22082).
func releaseWithoutAnswer(t *testing.T, b *bench) {
	for how, left := range map[string]int{"compare": 1, "unlock": 0} {
		l, p := b.proxied(b.env("release", how))
		lease := b.acquire(l)
		p.HoldReplies()
		released := make(chan error)
		go func() { released <- lease.Release(context.Background()) }()
		b.until(0)
		p.Cut()
		p.Heal()
		if err := <-released; (err != nil) != (how == unlock) {
			t.Errorf("release=%s: %v", how, err)
		}
		again := b.acquire(l)
		b.inLine(left, "release="+how+": after the holder has taken it again")
		_ = again.Release(context.Background())
	}
}

func TestServersAreNeeded(t *testing.T) {
	joins := []func(*locker, []string, time.Duration) (client, error){joinZoo, joinEtcd}
	for i, p := range products {
		k := p.kind
		if _, err := k.New(lock.Env{}); !errors.Is(err, lock.ErrServers) {
			t.Errorf("%s without servers: %v, want %v", k.Name, err, lock.ErrServers)
		}
		impatient := func(l *locker, servers []string, _ time.Duration) (client, error) {
			return joins[i](l, servers, 50*time.Millisecond)
		}
		silent := testkit.StartProxies(t, []string{"127.0.0.1:1"}).Addrs()
		env := lock.Env{Key: func(name string) string { return name }}
		_, err := complete(k, func(lock.Servers) []string { return silent }, impatient).New(env)
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), silent[0]) {
			t.Errorf("%s without an answer: %v, want %v and the address", k.Name, err, ErrUnreachable)
		}
	}
}

func TestEtcdCountsWholeSeconds(t *testing.T) {
	for value, ok := range map[string]bool{"1500ms": false, "1s": true, "1m0s": true} {
		if err := Etcd().Check(param.Values{"ttl": value}); (err == nil) != ok {
			t.Errorf("ttl=%s: %v", value, err)
		}
	}
}

// With all hooks there, no promise stays unchecked. Of three servers, the leader is stopped.
func TestConforms(t *testing.T) {
	t.Parallel()
	// longest is the longest TTL of the suite's workers: it outlasts an election on a busy machine, and sessions that
	// crash are waited for.
	const longest = 12 * time.Second
	for _, p := range products {
		t.Run(p.kind.Name, func(t *testing.T) {
			t.Parallel()
			e := p.start(t, 3)
			b := newBench(t, p, e.Addrs())
			var clients sync.Map // of a locker: its testkit.Proxies
			crash := func(_ testing.TB, l lock.Locker) {
				proxies, _ := clients.Load(l)
				proxies.(testkit.Proxies).Disconnect()
			}
			report := locktest.Run(t, locktest.Factory{
				Open: func(t testing.TB, w locktest.Worker) lock.Locker {
					env := b.env("ttl", min(w.TTL, longest).String(), "timeout", w.Timeout.String())
					proxies := testkit.StartProxies(t, b.addrs)
					addrs := proxies.Addrs()
					for i := range addrs {
						addrs[i] = w.Through(t, addrs[i])
					}
					env.Servers, env.Steps, env.Now = b.at(addrs), w.Steps, w.Now
					l, err := p.kind.New(env)
					if err != nil {
						t.Fatal(err)
					}
					clients.Store(l, proxies)
					return l
				},
				Lose: func(t testing.TB, name string) {
					line := b.line(name)
					clients.Range(func(l, _ any) bool {
						if len(line) > 0 && session(l.(*locker)) == line[0].session { // or it has expired by itself
							crash(t, l.(*locker))
						}
						return true
					})
				},
				Crash: crash,
				StopNode: func(t testing.TB) func() {
					leader, err := e.Leader(t.Context())
					if err == nil {
						err = e.Members[leader].Kill()
					}
					if err != nil {
						t.Fatal(err)
					}
					return func() {
						if err := e.Members[leader].Restart(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				},
				Queued:   func(_ testing.TB, name string) int { return max(0, len(b.line(name))-1) },
				Clock:    true,
				Renewing: true,
				Parallel: true,
				TTL:      time.Second,
				Patience: soon, // an election, and a client that looks for another server, on a busy machine
			})
			if unchecked := report.Unchecked(); len(unchecked) > 0 {
				t.Errorf("unchecked: %q", unchecked)
			}
		})
	}
}

// session is the number of a worker's session.
func session(l *locker) int64 {
	switch c := l.client.(type) {
	case *zooClient:
		return c.conn.SessionID()
	case *etcdClient:
		c.mu.Lock()
		defer c.mu.Unlock()
		return int64(c.session.id)
	default:
		panic("unknown client")
	}
}

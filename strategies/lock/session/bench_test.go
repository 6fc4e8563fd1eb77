package session

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

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
	{ZooKeeper(), serverstest.ZooKeeper, func(addrs []string) lock.Servers {
		return lock.Servers{ZooKeeper: addrs}
	}, zooLines,
		map[string]func(*testing.T, *bench){
			"the sequence starts again":  sequenceStartsAgain,
			"lost reply is found again":  lostReplyIsFoundAgain,
			"short silence is survived":  shortSilenceOfAServerIsSurvived,
			"the only server is stopped": onlyServerIsStopped,
			"a try looks again":          tryLooksAgain,
		}},
	{Etcd(), serverstest.Etcd, func(addrs []string) lock.Servers {
		return lock.Servers{Etcd: addrs}
	}, etcdLines,
		map[string]func(*testing.T, *bench){
			"revoked session":             revokedSession,
			"a release without an answer": releaseWithoutAnswer,

			"a late put comes to nothing":           latePutComesToNothing,
			"a late put of a holder":                latePutOfAHolderComesToNothing,
			"a late put of a waiter":                latePutOfAWaiterComesToNothing,
			"a late put beside a lease is deleted":  latePutBesideALeaseIsDeleted,
			"a former session is kept alive":        formerSessionIsKeptAlive,
			"a late deletion deletes nothing later": lateDeletionDeletesNothingLater,
		}},
}

// bench is where lockers meet: servers, the keys of one market, and a client of
// the test's own.
type bench struct {
	testing.TB
	product
	addrs   []string
	keys    market.Keys
	process *lock.ProcessState
	line    func(name string) []spot // the oldest first
	zoo     *zk.Conn
	etcd    *clientv3.Client
}

func newBench(t testing.TB, p product, addrs []string) *bench {
	b := &bench{TB: t, product: p, addrs: addrs, keys: testkit.Keys(t), process: &lock.ProcessState{}}
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
	c := testkit.Must(joinZoo(&locker{env: b.env("ttl", time.Minute.String())}, b.addrs, soon))(b)
	b.Cleanup(func() {
		_ = c.close()
	})

	b.zoo = c.(*zooClient).conn
	return func(name string) (line []spot) {
		dir := zooDir(b.keys.Lock, name)
		names := b.children(dir)
		slices.SortFunc(names, func(x, y string) int {
			return strings.Compare(number(x), number(y))
		})

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

// children are those that a node has. A follower may not have heard of them yet: it asks the
// leader first.
func (b *bench) children(path string) []string {
	b.Helper()
	_, err := b.zoo.Sync(path)
	if err != nil {
		b.Fatal(err)
	}
	names, _, err := b.zoo.Children(path)
	if err != nil && err != zk.ErrNoNode {
		b.Fatal(err)
	}
	return names
}

func etcdLines(b *bench) func(string) []spot {
	client := testkit.Must(clientv3.New(clientv3.Config{Endpoints: b.addrs, Logger: zap.NewNop()}))(b)
	b.Cleanup(func() {
		_ = client.Close()
	})
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
	l := testkit.Must(b.kind.New(env))(b)
	b.Cleanup(func() {
		if err := l.(*locker).Close(); err != nil {
			b.Error(err)
		}
	})
	// a busy machine may be silent for longer than a user should wait
	if zoo, ok := l.(*locker).client.(*zooClient); ok {
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
	p := testkit.Relay(b, b.addrs[0])
	env.Servers = b.at([]string{p.Addr()})
	return b.open(env), p
}

func (b *bench) acquire(l lock.Locker) *lock.Lease {
	b.Helper()
	lease := testkit.Must(l.Acquire(b.Context(), name))(b)
	return lease
}

func (b *bench) release(lease *lock.Lease) {
	b.Helper()
	testkit.Succeeds(b, lease.Release(context.Background()))
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

// until waits until n are in line.
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

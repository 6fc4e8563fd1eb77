package servers_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

// ensembles are the products that an Ensemble runs, with a client of each.
var ensembles = []struct {
	name  string
	start func(t testing.TB, n int) *servers.Ensemble
	dial  func(t *testing.T, addrs []string) client
}{
	{"zookeeper", serverstest.ZooKeeper, dialZooKeeper},
	{"etcd", serverstest.Etcd, dialEtcd},
}

// longest is how long a test waits for what passes only if the servers fail.
const longest = time.Minute

// A client writes a key and finds whether it is there.
type client interface {
	put(ctx context.Context, key string) error
	has(ctx context.Context, key string) (bool, error)
}

// TestLeaderIsKilled kills the leader of three, writes meanwhile, and starts it again: with
// MARKETSIM_LONG only.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	if !testkit.Long() {
		t.Skip("starts three servers of each product: set MARKETSIM_LONG")
	}

	for _, product := range ensembles {
		t.Run(product.name, func(t *testing.T) {
			t.Parallel()
			e := product.start(t, 3)
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()

			old := testkit.Must(e.Leader(ctx))(t)
			began := time.Now()
			testkit.Succeeds(t, e.Members[old].Kill())
			t.Logf("killed in %v", time.Since(began))
			refuses(t, e.Addrs()[old])

			if now, err := e.Leader(ctx); err != nil || now == old {
				t.Fatalf("the leader is %d, %v; it was %d", now, err, old)
			}
			t.Logf("a new leader after %v", time.Since(began))

			eventually(t, ctx, e, "writing with one of three down", product.dial(t, e.Addrs()),
				func(ctx context.Context, c client) error {
					return c.put(ctx, "k")
				})

			began = time.Now()
			testkit.Succeeds(t, e.Members[old].Restart(ctx))
			t.Logf("started again in %v", time.Since(began))
			if now, err := e.Leader(ctx); err != nil || now == old {
				t.Errorf("the one that was started again leads: %d, %v", now, err)
			}

			again := product.dial(t, e.Addrs()[old:old+1])
			eventually(t, ctx, e, "asking the one that was started again", again,
				func(ctx context.Context, c client) error {
					found, err := c.has(ctx, "k")
					if err == nil && !found {
						t.Error("it does not know what was written meanwhile")
					}
					return err
				})
		})
	}
}

// keepsTheData kills the only server of an ensemble, and finds what was written before.
func keepsTheData(
	t *testing.T, e *servers.Ensemble, dial func(t *testing.T, addrs []string) client) {

	t.Helper()
	if i, err := e.Leader(t.Context()); i != 0 || err != nil {
		t.Errorf("the leader is %d, %v", i, err)
	}
	if v := e.Version; v == "" || v[0] < '0' || v[0] > '9' {
		t.Errorf("the version is %q", v)
	}

	c := dial(t, e.Addrs())
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	testkit.Succeeds(t, c.put(ctx, "kept"))

	testkit.Succeeds(t, e.Members[0].Restart(ctx))
	eventually(t, ctx, e, "reading after the restart", c, func(ctx context.Context, c client) error {
		found, err := c.has(ctx, "kept")
		if err == nil && !found {
			t.Error("it is gone")
		}
		return err
	})
}

// A lease of one second is granted as such.
func TestShortestLease(t *testing.T) {
	t.Parallel()
	c := dialEtcd(t, serverstest.Etcd(t, 1).Addrs()).(etcdClient)
	if granted, err := c.Grant(t.Context(), 1); err != nil || granted.TTL != 1 {
		t.Errorf("a lease of 1 s: granted %v, %v", granted, err)
	}
}

// A variable of the user's that etcd reads does not keep it from starting.
func TestEtcdIgnoresTheEnvironment(t *testing.T) {
	t.Setenv("ETCD_NAME", "other")
	serverstest.Etcd(t, 1)
}

// eventually repeats what a client does until its connection has noticed that
// its server is gone, or back.
func eventually(t *testing.T, ctx context.Context, e *servers.Ensemble, what string, c client,
	do func(context.Context, client) error,
) {
	t.Helper()
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(asked, c)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v; the end of the first server's log:\n%s", what, err, e.Members[0].Log())
		}
	}
}

type etcdClient struct{ *clientv3.Client }

func dialEtcd(t *testing.T, addrs []string) client {
	t.Helper()
	c := testkit.Must(clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return etcdClient{c}
}

func (c etcdClient) put(ctx context.Context, key string) error {
	_, err := c.Put(ctx, key, "v")
	return err
}

func (c etcdClient) has(ctx context.Context, key string) (bool, error) {
	got, err := c.Get(ctx, key)
	return err == nil && len(got.Kvs) == 1, err
}

// zooKeeperClient writes ephemeral nodes, so that what it finds after a crash shows that
// its session has outlived it.
type zooKeeperClient struct{ conn *zk.Conn }

func dialZooKeeper(t *testing.T, addrs []string) client {
	t.Helper()
	silent := zk.WithLogger(log.New(io.Discard, "", 0))
	conn, events, err := zk.Connect(addrs, 40*time.Second, silent, zk.WithDialer(dialImpatient))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	go func() {
		for range events { // or the connection blocks
		}
	}()
	return zooKeeperClient{conn}
}

// dialImpatient is a zk.Dialer. The library waits ten times the time-out of a session for
// the first reply, 267 s, and ZooKeeper 3.8.0 gives none on a connection that it has
// accepted before it had loaded its data: it fails in closing it, too.
func dialImpatient(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	return impatient{conn}, err
}

type impatient struct{ net.Conn }

func (c impatient) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(30 * time.Second); t.After(latest) {
		t = time.Now().Add(3 * time.Second)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c zooKeeperClient) put(_ context.Context, key string) error {
	_, err := c.conn.Create("/"+key, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) { // the reply to an earlier attempt was lost
		return nil
	}
	return err
}

func (c zooKeeperClient) has(_ context.Context, key string) (bool, error) {
	found, _, err := c.conn.Exists("/" + key)
	return found, err
}

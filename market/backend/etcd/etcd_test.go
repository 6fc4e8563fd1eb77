package etcd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/marketsim/marketsim/market/backend/etcd"
	"github.com/marketsim/marketsim/market/backend/etcd/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func folders(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "marketsim-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestEtcd(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	began := time.Now()
	s := etcdtest.Start(t, 1)
	t.Logf("started in %v", time.Since(began))
	client, err := clientv3.New(clientv3.Config{Endpoints: s.Addrs(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	addr := s.Addrs()[0]
	began = time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(began))
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("it still listens after Close")
	}
}

func TestTwoAtOnce(t *testing.T) {
	a, b := etcdtest.Start(t, 1), etcdtest.Start(t, 1)
	if a.Addrs()[0] == b.Addrs()[0] {
		t.Errorf("both are at %s", a.Addrs()[0])
	}
}

func TestStartIsCancelled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := etcd.Start(ctx, 1); err == nil {
		s.Close()
		t.Log("it was ready at once")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestClusterElectsAnotherLeader(t *testing.T) {
	began := time.Now()
	c := etcdtest.Start(t, 3)
	t.Logf("started in %v", time.Since(began))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	old, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, c.Addrs())
	if _, err := client.Put(ctx, "k", "1"); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	c.Kill(old)
	t.Logf("killed in %v", time.Since(began))
	if conn, err := net.Dial("tcp", c.Addrs()[old]); err == nil {
		conn.Close()
		t.Error("a killed member still listens")
	}
	if now, err := c.Leader(ctx); err != nil || now == old {
		t.Fatalf("the leader is %d, %v; it was %d", now, err, old)
	}
	t.Logf("a new leader after %v", time.Since(began))
	for { // a client notices by its time-out, or at once
		asked, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(asked, "k", "2")
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("with one of three down: %v", err)
		}
	}
	if err := c.Restart(ctx, old); err != nil {
		t.Fatal(err)
	}
	got, err := dial(t, c.Addrs()[old:old+1]).Get(ctx, "k")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "2" {
		t.Errorf("the member that was started again knows %v, %v; want what was written meanwhile", got, err)
	}
}

// A lease of one second is granted as such.
func TestShortestLease(t *testing.T) {
	client := dial(t, etcdtest.Start(t, 1).Addrs())
	if granted, err := client.Grant(t.Context(), 1); err != nil || granted.TTL != 1 {
		t.Errorf("a lease of 1 s: granted %v, %v", granted, err)
	}
}

func dial(t *testing.T, addrs []string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

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
	s := etcdtest.Start(t)
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
	a, b := etcdtest.Start(t), etcdtest.Start(t)
	if a.Addrs()[0] == b.Addrs()[0] {
		t.Errorf("both are at %s", a.Addrs()[0])
	}
}

func TestStartIsCancelled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := etcd.Start(ctx); err == nil {
		s.Close()
		t.Log("it was ready at once")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

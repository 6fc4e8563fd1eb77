package zookeeper_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/market/backend/zookeeper/zookeepertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folders lists what the servers made in the temporary folder.
func folders(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "marketsim-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestStandalone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	began := time.Now()
	e := zookeepertest.Start(t, 1)
	t.Logf("started in %v", time.Since(began))
	if i, err := e.Leader(t.Context()); i != 0 || err != nil {
		t.Errorf("the leader is %d, %v", i, err)
	}
	began = time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(began))
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if conn, err := net.Dial("tcp", e.Addrs()[0]); err == nil {
		conn.Close()
		t.Error("it still listens after Close")
	}
}

func TestEnsembleElectsAnotherLeader(t *testing.T) {
	began := time.Now()
	e := zookeepertest.Start(t, 3)
	t.Logf("started in %v", time.Since(began))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	old, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(old); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	for {
		now, err := e.Leader(ctx)
		if err == nil && now != old {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no new leader: %v", err)
		}
	}
	t.Logf("a new leader after %v", time.Since(began))
	began = time.Now()
	if err := e.Restart(ctx, old); err != nil {
		t.Fatal(err)
	}
	t.Logf("started again in %v", time.Since(began))
	if now, err := e.Leader(ctx); err != nil || now == old {
		t.Errorf("the one that was started again leads: %d, %v", now, err)
	}
}

// A node made before the crash is there after it: the client's session outlives the server.
func TestRestartKeepsTheData(t *testing.T) {
	e := zookeepertest.Start(t, 1)
	conn, events, err := zk.Connect(e.Addrs(), 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range events { // or the connection blocks
		}
	}()
	if _, err := conn.Create("/kept", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	pid := e.PID(0)
	if err := e.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if e.PID(0) == pid {
		t.Error("the server was not killed")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		found, _, err := conn.Exists("/kept")
		if err == nil && !found {
			t.Fatal("the node is gone")
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client did not come back: %v", err)
		}
	}
}

func TestUnavailable(t *testing.T) {
	zookeepertest.Start(t, 1) // or there is nothing to test
	t.Setenv("PATH", t.TempDir())
	_, err := zookeeper.Start(t.Context(), 1)
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("without java, Start says %v", err)
	}
}

func TestStartIsCancelled(t *testing.T) {
	zookeepertest.Start(t, 1) // or there is nothing to test
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := zookeeper.Start(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

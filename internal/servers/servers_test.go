package servers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.MaxParallel(6)
	testkit.VerifyNoLeaks(m)
}

// groups are all kinds of servers that this package starts.
var groups = []struct {
	name  string
	needs string // see testkit.Require
	pack  string // Debian's package
	start func(context.Context) (io.Closer, error)
	check func(*testing.T, io.Closer) // what was started; nil: nothing more than that it can be closed
}{
	{"cluster", "redis", "redis-tools",
		func(ctx context.Context) (io.Closer, error) { return servers.StartCluster(ctx) }, nil},
	{"redlock", "redis", "redis-server", forLock("redlock"), nil},
	{"zookeeper", "zookeeper", "zookeeper", forLock("zookeeper"), func(t *testing.T, c io.Closer) {
		keepsTheData(t, c.(*servers.Locks).PrivateZooKeeper, dialZooKeeper)
	}},
	{"etcd", "etcd", "etcd-server", forLock("etcd"), func(t *testing.T, c io.Closer) {
		keepsTheData(t, c.(*servers.Locks).PrivateEtcd, dialEtcd)
	}},
}

// forLock starts what a kind of lock needs.
func forLock(need string) func(context.Context) (io.Closer, error) {
	return func(ctx context.Context) (io.Closer, error) {
		locks, err := servers.ForLock(ctx, servers.Addresses{}, need)
		if err != nil {
			return nil, err
		}

		masters := len(locks.Masters) == 5
		zooKeeper := len(locks.ZooKeeper) == 1
		etcd := len(locks.Etcd) == 1
		if masters != (need == "redlock") || zooKeeper != (need == "zookeeper") || etcd != (need == "etcd") ||
			masters != (locks.PrivateMasters != nil) || zooKeeper != (locks.PrivateZooKeeper != nil) ||
			etcd != (locks.PrivateEtcd != nil) {
			return nil, errors.Join(fmt.Errorf("for %s it started %+v", need, locks), locks.Close())
		}
		return locks, nil
	}
}

// addrsOf are the addresses of what was started.
func addrsOf(group io.Closer) []string {
	if locks, ok := group.(*servers.Locks); ok {
		return slices.Concat(locks.PrivateMasters.Addrs(), locks.ZooKeeper, locks.Etcd)
	}
	return group.(*servers.Cluster).Addrs()
}

// TestNothingIsLeftBehind checks each group and closes it, and cancels another one before
// and while it starts.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Run("groups", func(t *testing.T) {
		for _, g := range groups {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				group, err := g.start(t.Context())
				if errors.Is(err, process.ErrUnavailable) {
					testkit.Require(t, g.needs, err.Error())
				}
				if err != nil {
					t.Fatal(err)
				}
				if g.check != nil {
					g.check(t, group)
				}

				if err := group.Close(); err != nil {
					t.Error(err)
				}
				for _, addr := range addrsOf(group) {
					refuses(t, addr)
				}

				cancelledStart(t, g.start, 0)
				cancelledStart(t, g.start, 30*time.Millisecond)
			})
		}
	})

	left, err := filepath.Glob(filepath.Join(os.TempDir(), "marketsim-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// cancelledStart starts a group under a context that ends so soon.
func cancelledStart(
	t *testing.T, start func(context.Context) (io.Closer, error), after time.Duration) {

	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	group, err := start(ctx)
	cancel()
	if err == nil && after > 0 { // it was quick
		err = errors.Join(group.Close(), context.DeadlineExceeded)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled after %v: %v", after, err)
	}
}

func refuses(t *testing.T, addr string) {
	t.Helper()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Errorf("%s still listens", addr)
	}
}

// TestNothingInstalled looks for each group's programs in an empty PATH.
func TestNothingInstalled(t *testing.T) {
	for _, g := range groups {
		t.Setenv("PATH", t.TempDir())
		_, err := g.start(t.Context())
		if !errors.Is(err, process.ErrUnavailable) || !strings.Contains(err.Error(), "apt-get install") ||
			!strings.Contains(err.Error(), g.pack) {
			t.Errorf("%s: %v, want the package %s", g.name, err, g.pack)
		}
	}
}

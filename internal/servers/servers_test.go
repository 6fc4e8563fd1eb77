package servers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
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
	addrs func(io.Closer) []string
}{
	{"masters", "redis", "redis-server",
		func(ctx context.Context) (io.Closer, error) { return servers.StartMasters(ctx, 3) },
		func(c io.Closer) []string { return c.(servers.Redises).Addrs() }},
	{"cluster", "redis", "redis-tools",
		func(ctx context.Context) (io.Closer, error) { return servers.StartCluster(ctx) },
		func(c io.Closer) []string { return c.(*servers.Cluster).Addrs() }},
	{"zookeeper", "zookeeper", "zookeeper",
		func(ctx context.Context) (io.Closer, error) { return servers.StartZooKeeper(ctx, 1) },
		func(c io.Closer) []string { return c.(*servers.Ensemble).Addrs() }},
	{"etcd", "etcd", "etcd-server",
		func(ctx context.Context) (io.Closer, error) { return servers.StartEtcd(ctx, 1) },
		func(c io.Closer) []string { return c.(*servers.Ensemble).Addrs() }},
}

// TestNothingIsLeftBehind closes each group after it has started, and cancels another
// one before and while it starts.
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

				if err := group.Close(); err != nil {
					t.Error(err)
				}
				for _, addr := range g.addrs(group) {
					refuses(t, addr)
				}

				for _, after := range []time.Duration{0, 30 * time.Millisecond} {
					ctx, cancel := context.WithTimeout(t.Context(), after)
					group, err := g.start(ctx)
					cancel()
					if err == nil && after > 0 { // it was quick
						err = errors.Join(group.Close(), context.DeadlineExceeded)
					}
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("cancelled after %v: %v", after, err)
					}
				}
			})
		}
	})

	left, err := filepath.Glob(filepath.Join(os.TempDir(), "marketsim-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
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

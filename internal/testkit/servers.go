package testkit

import (
	"errors"
	"io"
	"testing"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market/backend"
)

// Masters starts n independent Redis masters for the length of the test. It needs "redis", see [Require].
func Masters(t testing.TB, n int) servers.Redises {
	t.Helper()
	return started[servers.Redises](t, "redis")(servers.StartMasters(t.Context(), n))
}

// Cluster starts a Redis Cluster for the length of the test. It needs "redis", see [Require].
func Cluster(t testing.TB) *servers.Cluster {
	t.Helper()
	return started[*servers.Cluster](t, "redis")(servers.StartCluster(t.Context()))
}

// ZooKeeper starts n servers of ZooKeeper for the length of the test. It needs "zookeeper", see [Require].
func ZooKeeper(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return started[*servers.Ensemble](t, "zookeeper")(servers.StartZooKeeper(t.Context(), n))
}

// Etcd starts an etcd of n members for the length of the test. It needs "etcd", see [Require].
func Etcd(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return started[*servers.Ensemble](t, "etcd")(servers.StartEtcd(t.Context(), n))
}

// Has reports whether this machine has what a test may leave out because other things are tested as well: "zookeeper"
// or "etcd". It is true of all that is Required, so that the test fails where it is missing.
func Has(name string) bool {
	var err error
	switch name {
	case "zookeeper":
		_, err = servers.FindZooKeeper()
	case "etcd":
		_, err = servers.FindEtcd()
	default:
		panic("testkit.Has: unknown server " + name)
	}
	return err == nil || Required(name)
}

// started closes what was started at the end of the test, or ends the test with the error of starting it. Where this
// machine lacks it, the test needs name.
func started[T io.Closer](t testing.TB, name string) func(T, error) T {
	return func(s T, err error) T {
		t.Helper()
		if errors.Is(err, backend.ErrUnavailable) {
			Require(t, name, err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing what was started: %v", err)
			}
		})
		return s
	}
}

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
	m, err := servers.StartMasters(t.Context(), n)
	endWith(t, "redis", m, err)
	return m
}

// Cluster starts a Redis Cluster for the length of the test. It needs "redis", see [Require].
func Cluster(t testing.TB) *servers.Cluster {
	t.Helper()
	c, err := servers.StartCluster(t.Context())
	endWith(t, "redis", c, err)
	return c
}

// ZooKeeper starts n servers of ZooKeeper for the length of the test. It needs "zookeeper", see [Require].
func ZooKeeper(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	e, err := servers.StartZooKeeper(t.Context(), n)
	endWith(t, "zookeeper", e, err)
	return e
}

// Etcd starts an etcd of n members for the length of the test. It needs "etcd", see [Require].
func Etcd(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	e, err := servers.StartEtcd(t.Context(), n)
	endWith(t, "etcd", e, err)
	return e
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

// endWith closes what was started at the end of the test, or ends the test with the error of starting it.
func endWith(t testing.TB, name string, started io.Closer, err error) {
	t.Helper()
	if errors.Is(err, backend.ErrUnavailable) {
		Require(t, name, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Errorf("closing the servers: %v", err)
		}
	})
}

// Package serverstest starts servers that are several, or no Redis, for tests. It is apart from
// package testkit, so that tests which need none are not linked with the clients of all.
package serverstest

import (
	"testing"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
)

// Masters starts n independent Redis masters for the length of the test. It
// needs "redis", see [testkit.Require].
func Masters(t testing.TB, n int) servers.Redises {
	t.Helper()
	return testkit.Started[servers.Redises](t, "redis")(servers.StartMasters(t.Context(), n))
}

// Cluster starts a Redis Cluster for the length of the test. It needs "redis",
// see [testkit.Require].
func Cluster(t testing.TB) *servers.Cluster {
	t.Helper()
	return testkit.Started[*servers.Cluster](t, "redis")(servers.StartCluster(t.Context()))
}

// ZooKeeper starts n servers of ZooKeeper for the length of the test. It needs
// "zookeeper", see [testkit.Require].
func ZooKeeper(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return testkit.Started[*servers.Ensemble](t, "zookeeper")(servers.StartZooKeeper(t.Context(), n))
}

// Etcd starts an etcd of n members for the length of the test. It needs "etcd",
// see [testkit.Require].
func Etcd(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return testkit.Started[*servers.Ensemble](t, "etcd")(servers.StartEtcd(t.Context(), n))
}

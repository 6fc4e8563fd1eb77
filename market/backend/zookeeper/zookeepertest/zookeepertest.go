// Package zookeepertest gives tests a ZooKeeper.
package zookeepertest

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
)

// Start starts an ensemble of n servers for the length of the test. It needs "zookeeper", see [backendtest.Require].
func Start(t testing.TB, n int) *zookeeper.Ensemble {
	t.Helper()
	e, err := zookeeper.Start(t.Context(), n)
	if errors.Is(err, backend.ErrUnavailable) {
		backendtest.Require(t, "zookeeper", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing ZooKeeper: %v", err)
		}
	})
	return e
}

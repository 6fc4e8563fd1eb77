// Package clustertest gives tests a Redis Cluster.
package clustertest

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/cluster"
)

// Start starts a cluster for the length of the test. It needs "redis", see [backendtest.Require].
func Start(t testing.TB) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context())
	if errors.Is(err, backend.ErrUnavailable) {
		backendtest.Require(t, "redis", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the cluster: %v", err)
		}
	})
	return c
}

// Package sentineltest gives tests a master that Sentinel watches.
package sentineltest

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/sentinel"
)

// Start starts a trio for the length of the test. It needs "redis", see [backendtest.Require].
func Start(t testing.TB) *sentinel.Trio {
	t.Helper()
	trio, err := sentinel.Start(t.Context())
	if errors.Is(err, backend.ErrUnavailable) {
		backendtest.Require(t, "redis", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := trio.Close(); err != nil {
			t.Errorf("closing the trio: %v", err)
		}
	})
	return trio
}

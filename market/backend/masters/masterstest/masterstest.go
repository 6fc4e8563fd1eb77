// Package masterstest gives tests independent Redis masters.
package masterstest

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/masters"
)

// Start starts n masters for the length of the test. It needs "redis", see [backendtest.Require].
func Start(t testing.TB, n int) *masters.Masters {
	t.Helper()
	m, err := masters.Start(t.Context(), n)
	if errors.Is(err, backend.ErrUnavailable) {
		backendtest.Require(t, "redis", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing the masters: %v", err)
		}
	})
	return m
}

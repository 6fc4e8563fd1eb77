// Package etcdtest gives tests an etcd.
package etcdtest

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend/etcd"
)

// Start starts an etcd server for the length of the test. It needs nothing of the machine.
func Start(t testing.TB) *etcd.Server {
	t.Helper()
	s, err := etcd.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing etcd: %v", err)
		}
	})
	return s
}

// Package etcdtest gives tests an etcd.
package etcdtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market/backend/etcd"
)

// Start starts an etcd of n members for the length of the test. It needs nothing of the machine.
func Start(t testing.TB, n int) *etcd.Cluster {
	t.Helper()
	s, err := etcd.Start(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing etcd: %v", err)
		}
		if n > 1 {
			settle()
		}
	})
	return s
}

// settle waits for the connections that members had to each other: they end when nothing was said on them for five seconds.
func settle() {
	for deadline := time.Now().Add(10 * time.Second); goleak.Find() != nil && time.Now().Before(deadline); {
	}
}

// Goroutines are those of members that talk to each other, for tests that look for goroutines of others meanwhile. A client
// has none like them: it does not speak plain HTTP.
func Goroutines() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		goleak.IgnoreAnyFunction("net/http.(*Transport).dialConnFor"),
		goleak.IgnoreAnyFunction("net/http.(*Transport).startDialConnForLocked.func1"),
	}
}

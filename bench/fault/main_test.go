package fault

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/etcd/etcdtest"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestMain(m *testing.M) {
	ServeChild(func(name string) (Purchasing, error) { return catalogue.Full().Parse(name) })
	backend.QuietLogs()
	backendtest.VerifyNoLeaks(m, etcdtest.Goroutines()...) // which end some seconds after a cluster is closed
}

// openLab opens a lab for the length of a test.
func openLab(t testing.TB) *Lab {
	t.Helper()
	lab, err := OpenLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Errorf("close the lab: %v", err)
		}
	})
	return lab
}

// subject is one by its name.
func subject(t testing.TB, name string) Subject {
	t.Helper()
	s, err := Of(catalogue.Full(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

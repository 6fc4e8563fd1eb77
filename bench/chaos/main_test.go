package chaos

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestMain(m *testing.M) {
	ServeChild(func(name string) (bench.Subject, error) { return catalogue.Full().Parse(name) })
	backend.QuietLogs()
	testkit.MaxParallel(5)
	testkit.VerifyNoLeaks(m)
}

// open starts a setup for the length of a test.
func open(t testing.TB) *Setup {
	t.Helper()
	return begin(t, Start)
}

// begin does so by Start or StartCluster.
func begin(t testing.TB, start func(context.Context) (*Setup, error)) *Setup {
	t.Helper()
	s, err := start(t.Context())
	if errors.Is(err, backend.ErrUnavailable) {
		testkit.Require(t, "redis", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

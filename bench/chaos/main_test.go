package chaos

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	backendtest.VerifyNoLeaks(m)
}

// Open starts an arena for the length of a test. It is here so that package chaos_test has it, too.
func Open(t testing.TB) *Arena {
	t.Helper()
	a, err := Start(t.Context())
	if errors.Is(err, backend.ErrUnavailable) {
		backendtest.Require(t, "redis", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

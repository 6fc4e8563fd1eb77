package backendtest

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyNoLeaks runs a package's tests, from its TestMain, and fails if they leave goroutines behind. The one with which
// go-redis redials a server that has gone is let be: it sleeps a second between two looks at whether its client is
// closed, and ends by itself.
func VerifyNoLeaks(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

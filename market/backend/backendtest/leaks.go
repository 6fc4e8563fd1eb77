package backendtest

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyNoLeaks runs a package's tests, from its TestMain, and fails if they leave goroutines behind. The one with which
// go-redis redials a server that has gone is let be: it sleeps a second between two looks at whether its client is
// closed, and ends by itself. The options name others that may be let be.
func VerifyNoLeaks(m *testing.M, others ...goleak.Option) {
	goleak.VerifyTestMain(m, append(others,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))...)
}

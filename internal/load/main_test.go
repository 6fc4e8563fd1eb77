package load

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.MaxParallel(4) // most of them wait
	testkit.VerifyNoLeaks(m)
}

// errLost is an outcome that the client was not told.
var errLost = errors.New("connection reset by a test")

// The loads that most tests use.
var mix1x1, mix5x5 = result.Mix{Sellers: 1, Buyers: 1}, result.Mix{Sellers: 5, Buyers: 5}

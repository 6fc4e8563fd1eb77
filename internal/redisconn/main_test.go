package redisconn_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.MaxParallel(10)
	testkit.VerifyNoLeaks(m)
}

package backend_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// parentEnv makes the test binary act as a marketsim that starts a server and
// is then killed.
const parentEnv = "BACKEND_TEST_PARENT"

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	if os.Getenv(parentEnv) != "" {
		parent()
		return
	}
	testkit.MaxParallel(6)
	testkit.VerifyNoLeaks(m)
}

func parent() {
	s, err := backend.Local{}.Start(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), s.Target.Addr, s.Target.Password)
	select {}
}

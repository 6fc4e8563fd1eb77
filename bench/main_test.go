package bench

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	testkit.VerifyNoLeaks(m)
}

// StartServer starts the server of a benchmark, chosen as the command chooses: REDIS_URL, else a redis-server of this
// machine, else the embedded one, whose numbers are not Redis's. It is here, and not in a file of package bench_test,
// so that both packages have it.
func StartServer(b *testing.B) *backend.Server {
	b.Helper()
	var url *backend.Target
	if raw := os.Getenv("REDIS_URL"); raw != "" {
		target, err := backend.ParseURL(raw)
		if err != nil {
			b.Fatalf("REDIS_URL: %v", err)
		}
		target.Password = cmp.Or(target.Password, os.Getenv("REDIS_PASSWORD"))
		url = &target
	}
	server := must(backend.Start(context.Background(), "", url, backend.Local{}, embedded.Starter{}))(b)
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return server
}

// errLost is an outcome that the client was not told.
var errLost = errors.New("connection reset by a test")

// The loads that most tests use.
var mix1x1, mix5x5 = result.Mix{Sellers: 1, Buyers: 1}, result.Mix{Sellers: 5, Buyers: 5}

package redisconn_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// Many goroutines send over one connection, which sends nothing twice and
// counts for nobody.
func TestPipeliningSharesAConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		var others redisconn.Stats
		conn := testkit.Must(s.Dialer("").WithStats(&others).WithPipelining().Dial(t.Context()))(t)
		defer conn.Close()
		if n := conn.Options().MaxRetries; n != 0 { // as go-redis has it for -1
			t.Errorf("commands are sent again %d times", n)
		}

		pipeline := testkit.Must(redisconn.FullDuplex(conn.Client))(t)
		defer pipeline.Close()

		keys := testkit.Keys(t)
		key := keys.Lock("counter")

		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for range 10 {
					cmd := redis.NewIntCmd(t.Context(), "incr", key)
					if err := pipeline.Submit(t.Context(), cmd).WaitContext(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()

		if n, err := pipeline.Del(t.Context(), key).Result(); n != 1 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}

		stats := conn.Stats.Snapshot()
		pool := conn.PoolStats()
		if !conn.Shared() || stats.BytesSent == 0 || stats.BytesReceived == 0 || stats.Commands != 0 ||
			others.Snapshot() != (redisconn.Counts{}) {
			t.Errorf("it counts %+v, and for others %+v", stats, others.Snapshot())
		}
		if pool.TotalConns > 0 {
			t.Errorf("it has %d connections besides", pool.TotalConns)
		}
	})
}

// Where go-redis would wait for the replies to a batch before it sends the next
// one, FullDuplex says so.
func TestHalfDuplexIsAnError(t *testing.T) {
	s := testkit.Embedded(t)
	plain := testkit.Dial(t, s)
	_, err := redisconn.FullDuplex(plain.Client)
	if err == nil || !strings.Contains(err.Error(), "full duplex off") {
		t.Errorf("without a pool for pipelines: %v", err)
	}

	other := testkit.Must(s.Dialer("").WithPipelining().Dial(t.Context()))(t)
	defer other.Close()
	testkit.Must(other.AsyncAutoPipeline())(t)
	_, err = redisconn.FullDuplex(other.Client)
	if err == nil || !strings.Contains(err.Error(), "full duplex off") {
		t.Errorf("with an AutoPipeline of other options: %v", err)
	}
}

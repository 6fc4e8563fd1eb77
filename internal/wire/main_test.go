package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

func TestMain(m *testing.M) {
	redisconn.QuietLogs()
	testkit.VerifyNoLeaks(m)
}

// soon is how long a test waits for what should happen soon, on a busy machine too.
const soon = time.Minute

// bench is a server, a way to it round the proxy, and keys of its own.
type bench struct {
	*testing.T
	server *backend.Server
	proxy  *wire.Proxy
	direct *redisconn.Conn
	key    string
}

// onEach runs f on each server behind a proxy.
func onEach(t *testing.T, f func(b bench)) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		f(on(t, s))
	})
}

// on starts a proxy before a server.
func on(t *testing.T, s *backend.Server) bench {
	t.Helper()
	p := testkit.Must(wire.StartRedis(s.Target.Network, s.Target.Addr, s.Target.TLS))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return bench{T: t, server: s, proxy: p, direct: testkit.Dial(t, s), key: testkit.Keys(t).Run()}
}

// dial connects through the proxy.
func (b bench) dial() *redisconn.Conn {
	b.Helper()
	c := testkit.Must(redisconn.To(b.server.Target.Through(b.proxy.Addr())).Dial(b.Context()))(b)
	b.Cleanup(func() {
		_ = c.Close()
	})
	return c
}

// wantCount checks how often INCR was executed, as seen round the proxy.
func (b bench) wantCount(what string, want int64) {
	b.Helper()
	if n, err := b.direct.IncrBy(b.Context(), b.key, 0).Result(); err != nil || n != want {
		b.Errorf("%s: INCR was executed %d times, %v; want %d", what, n, err, want)
	}
}

// within waits for a channel to be closed or to deliver.
func within[T any](b bench, what string, c <-chan T) (v T) {
	b.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		b.Fatalf("%s: nothing within %s", what, soon)
	}
	return v
}

// incr sends INCR in the background.
func (b bench) incr(c *redisconn.Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- c.Incr(b.Context(), b.key).Err()
	}()
	return done
}

// incrWords is the command as it goes over the wire.
func incrWords(key string) string {
	return fmt.Sprintf("*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(key), key)
}

package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/wire"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	backendtest.VerifyNoLeaks(m)
}

// bench is a server, a way to it round the proxy, and keys of its own.
type bench struct {
	*testing.T
	server *backend.Server
	proxy  *wire.Proxy
	direct *backend.Conn
	key    string
}

// onEach runs f on each server behind a proxy.
func onEach(t *testing.T, f func(b bench)) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		p, err := wire.Start(s.Target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		f(bench{T: t, server: s, proxy: p, direct: backendtest.Dial(t, s), key: backendtest.Keys(t).Run()})
	})
}

// dial connects through the proxy.
func (b bench) dial() *backend.Conn {
	b.Helper()
	c, err := backend.Dial(b.Context(), b.proxy.Target())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// wantCount checks how often INCR was executed, as seen round the proxy.
func (b bench) wantCount(what string, want int64) {
	b.Helper()
	if n, err := b.direct.IncrBy(b.Context(), b.key, 0).Result(); err != nil || n != want {
		b.Errorf("%s: INCR was executed %d times, %v; want %d", what, n, err, want)
	}
}

// awaitCount waits until INCR was executed so often.
func (b bench) awaitCount(what string, want int64) {
	b.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		n, err := b.direct.IncrBy(b.Context(), b.key, 0).Result()
		if err == nil && n == want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s: INCR was executed %d times, %v; want %d", what, n, err, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// within waits for a channel to be closed or to deliver.
func within[T any](b bench, what string, c <-chan T) (v T) {
	b.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Second):
		b.Fatalf("%s: nothing within 5 s", what)
	}
	return v
}

// incr sends INCR in the background.
func (b bench) incr(c *backend.Conn) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Incr(b.Context(), b.key).Err() }()
	return done
}

// incrWords is the command as it goes over the wire.
func incrWords(key string) string {
	return fmt.Sprintf("*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(key), key)
}

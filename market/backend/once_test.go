package backend_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// proxy stands before a server and, when armed, loses the next reply together with its connection: what the
// client sees when the network fails after the server did the work.
type proxy struct {
	target backend.Target
	lose   atomic.Bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	p := &proxy{}
	var pipes sync.WaitGroup
	t.Cleanup(pipes.Wait) // runs after the listener has closed the clients' connections
	p.target = listen(t, func(client net.Conn) {
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			return
		}
		pipes.Go(func() {
			defer upstream.Close()
			_, _ = io.Copy(upstream, client)
		})
		pipes.Go(func() {
			defer client.Close()
			p.replies(client, upstream)
		})
	})
	return p
}

func (p *proxy) replies(client, upstream net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(b)
		if err != nil || p.lose.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

func TestLostReplyRunsOnce(t *testing.T) {
	s := backendtest.Local(t)
	p := newProxy(t, s.Target.Addr)
	direct := backendtest.Dial(t, s)
	ctx := t.Context()
	incr := func(p redis.Pipeliner) error { p.Incr(ctx, "n"); return nil }
	for _, tc := range []struct {
		name string
		do   func(c *redis.Client) error
	}{
		{"command", func(c *redis.Client) error { p.lose.Store(true); return c.Incr(ctx, "n").Err() }},
		{"pipeline", func(c *redis.Client) error { p.lose.Store(true); _, err := c.Pipelined(ctx, incr); return err }},
		{"transaction", func(c *redis.Client) error { p.lose.Store(true); _, err := c.TxPipelined(ctx, incr); return err }},
		{"exec after watch", func(c *redis.Client) error {
			return c.Watch(ctx, func(tx *redis.Tx) error {
				p.lose.Store(true)
				_, err := tx.TxPipelined(ctx, incr)
				return err
			}, "n")
		}},
		{"script", func(c *redis.Client) error {
			p.lose.Store(true)
			return c.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"n"}).Err()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := backend.Dial(ctx, p.target)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			direct.Del(ctx, "n")
			if err := tc.do(conn.Client); err == nil {
				t.Error("the reply was lost, but no error was returned")
			}
			if n, _ := direct.Get(ctx, "n").Int(); n != 1 {
				t.Errorf("ran %d times, want once", n)
			}
			if err := conn.Incr(ctx, "n").Err(); err != nil {
				t.Errorf("the next command: %v", err)
			}
			if n, _ := direct.Get(ctx, "n").Int(); n != 2 {
				t.Errorf("after one more command the count is %d, want 2", n)
			}
		})
	}
}

// The control: go-redis as it comes does run a command twice, so the test above can fail.
func TestLostReplyRunsTwiceByDefault(t *testing.T) {
	s := backendtest.Local(t)
	p := newProxy(t, s.Target.Addr)
	client := redis.NewClient(&redis.Options{Addr: p.target.Addr})
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.lose.Store(true)
	if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 2 {
		t.Errorf("got %d, %v; want 2: the first reply was lost and the command sent again", n, err)
	}
}

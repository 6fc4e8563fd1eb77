package backend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// dialFails dials and checks the error's kind, its advice, and that it came within 5 seconds.
func dialFails(t *testing.T, target backend.Target, is error, says string) {
	t.Helper()
	start := time.Now()
	conn, err := backend.Dial(t.Context(), target)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Dial took %v", took)
	}
	if err == nil {
		conn.Close()
		if says != "" {
			t.Errorf("Dial succeeded, want an error that says %q", says)
		}
		return
	}
	t.Log(err)
	if says == "" || !strings.Contains(err.Error(), says) || !errors.Is(err, is) {
		t.Errorf("got %v, want %v saying %q", err, is, says)
	}
	if target.Password != "" && strings.Contains(err.Error(), target.Password) {
		t.Errorf("%v tells the password", err)
	}
}

// listen accepts connections and hands each to handle, which need not close it.
func listen(t testing.TB, handle func(net.Conn)) backend.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
			handle(c)
		}
		for _, c := range conns {
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return backend.Target{Network: "tcp", Addr: l.Addr().String()}
}

func TestDialUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	refused := backend.Target{Network: "tcp", Addr: closed.Addr().String(), Password: "SECRET"}
	silent := listen(t, func(net.Conn) {})
	silentTLS := parse(t, "rediss://"+silent.Addr)
	for _, tc := range []struct {
		name   string
		target backend.Target
		is     error
		says   string
	}{
		{"refused", refused, backend.ErrUnreachable, "is it running"},
		{"no socket", backend.Target{Network: "unix", Addr: filepath.Join(t.TempDir(), "s")}, backend.ErrUnreachable, "unixsocket"},
		{"black hole", silent, backend.ErrUnreachable, "did not answer"},
		{"black hole behind TLS", silentTLS, backend.ErrTLS, "is this a TLS port?"},
		{"hangs up", listen(t, func(c net.Conn) { c.Close() }), backend.ErrUnreachable, "hung up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dialFails(t, tc.target, tc.is, tc.says)
		})
	}
}

func TestDialIsCancelled(t *testing.T) {
	accepted := make(chan struct{})
	target := listen(t, func(net.Conn) { close(accepted) })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user pressed Ctrl-C")
	go func() { <-accepted; cancel(cause) }()
	start := time.Now()
	if _, err := backend.Dial(ctx, target); !errors.Is(err, cause) {
		t.Errorf("got %v, want the context's cause", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a cancelled Dial took %v", took)
	}
}

func TestDialPassword(t *testing.T) {
	s := backendtest.Local(t, "--requirepass", "SECRET")
	backendtest.Dial(t, s)
	without, wrong, stranger := s.Target, s.Target, s.Target
	without.Password, wrong.Password, stranger.Username = "", "incorrect", "nobody"
	dialFails(t, without, backend.ErrAuth, "REDIS_PASSWORD")
	dialFails(t, wrong, backend.ErrAuth, "--password-file")
	dialFails(t, stranger, backend.ErrAuth, "as user nobody")
}

func TestDialLoading(t *testing.T) {
	target := fakeRedis(t, map[string]string{"ping": "-LOADING Redis is loading the dataset in memory\r\n"})
	dialFails(t, target, backend.ErrLoading, "try again")
}

func TestDialTooManyClients(t *testing.T) {
	s := backendtest.Local(t)
	backendtest.Dial(t, s).ConfigSet(t.Context(), "maxclients", "1")
	// Whether the reply or the end of the connection is seen first is a race; either tells.
	for range 10 {
		conn, err := backend.Dial(t.Context(), s.Target)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "maxclients") {
			t.Errorf("got %v, want advice on maxclients", err)
		}
	}
}

func TestUnixSocketAndDatabase(t *testing.T) {
	// A socket's path is limited to about 100 bytes, which t.TempDir exceeds on some systems.
	dir, err := os.MkdirTemp("", "ms")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "redis.sock")
	s := backendtest.Local(t, "--unixsocket", path)
	conn, err := backend.Dial(t.Context(), parse(t, "unix://"+path+"?db=3"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := backendtest.Dial(t, s).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("database 0 holds the key of database 3: %v", err)
	}
}

// A connection that the server closed while it was idle is replaced before a command is written to it.
func TestIdleConnectionLost(t *testing.T) {
	s := backendtest.Local(t)
	conn, other := backendtest.Dial(t, s), backendtest.Dial(t, s)
	if err := other.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	awaitClients(t, other, 1)
	before := conn.Stats.Snapshot()
	if err := conn.Incr(t.Context(), "n").Err(); err != nil {
		t.Errorf("the command after a lost idle connection: %v", err)
	}
	if got := conn.Stats.Snapshot().Sub(before); got.Commands != 1 || got.RoundTrips != 1 {
		t.Errorf("the second handshake was counted: %+v", got)
	}
}

// awaitClients polls until the server counts n clients.
func awaitClients(t testing.TB, conn *backend.Conn, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		list, err := conn.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(list, "\n") == n {
			return
		}
	}
}

func TestOneConnectionForEverything(t *testing.T) {
	s := backendtest.Local(t)
	conn, other := backendtest.Dial(t, s), backendtest.Dial(t, s)
	ctx := t.Context()
	if _, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "n"); return nil }); err != nil {
		t.Fatal(err)
	}
	err := conn.Watch(ctx, func(tx *redis.Tx) error {
		// The only connection is in use: the client waits for itself until the deadline.
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := conn.Get(short, "n").Err(); err == nil {
			t.Error("a client used inside its own Watch took a second connection")
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "n"); return nil })
		return err
	}, "n")
	if err != nil {
		t.Error(err)
	}
	awaitClients(t, other, 2)
}

func TestDeadlineEndsBlockingCommand(t *testing.T) {
	conn := backendtest.Dial(t, backendtest.Local(t))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := conn.BLPop(ctx, 10*time.Second, "list").Err(); err == nil {
		t.Error("BLPOP returned without an error")
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a deadline of 50 ms took %v", took)
	}
}

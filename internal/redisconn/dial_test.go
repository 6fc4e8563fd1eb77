package redisconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

// listen accepts connections and hands each to handle, which need not close it.
func listen(t testing.TB, handle func(net.Conn)) redisconn.Target {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
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
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return redisconn.Target{Network: "tcp", Addr: l.Addr().String()}
}

func TestDialUnreachable(t *testing.T) {
	t.Parallel()
	refused := redisconn.Target{Network: "tcp", Addr: "127.0.0.1:1", Password: "SECRET"}
	noSocket := redisconn.Target{Network: "unix", Addr: filepath.Join(t.TempDir(), "s")}
	silent := listen(t, func(net.Conn) {})
	silentTLS := parse(t, "rediss://"+silent.Addr)

	greets := func(with string) redisconn.Target {
		return testkit.FakeRedis(t, map[string]string{"hello 3": with, "hello": with})
	}
	loading := testkit.FakeRedis(t, map[string]string{
		"ping": "-LOADING Redis is loading the dataset in memory\r\n",
	})

	for _, tc := range []struct {
		name   string
		target redisconn.Target
		is     error
		says   string
	}{
		{"refused", refused, redisconn.ErrUnreachable, "is it running"},
		{"no socket", noSocket, redisconn.ErrUnreachable, "unixsocket"},
		{"black hole", silent, redisconn.ErrUnreachable, "did not answer"},
		{"black hole behind TLS", silentTLS, redisconn.ErrTLS, "is this a TLS port?"},
		{"loading", loading, nil, "try again"},
		{
			"HTTP", greets("HTTP/1.1 400 Bad Request\r\n"),
			redisconn.ErrUnreachable, "does not speak Redis",
		},
		{
			"a TLS alert", greets("\x15\x03\x01\x00\x02\x02\n\r\n"),
			redisconn.ErrUnreachable, "does it expect TLS?",
		},
		{"2 billion parts", greets("*2000000000\r\n"), redisconn.ErrUnreachable, "does not speak Redis"},
		{"2 billion bytes", greets("$2000000000\r\n"), redisconn.ErrUnreachable, "does not speak Redis"},
		{"a line without end", listen(t, func(c net.Conn) {
			go sayWithoutEnd(c)
		}), redisconn.ErrUnreachable,
			"a line of more than 1 MB that does not end"},
		{"hangs up", listen(t, func(c net.Conn) {
			c.Close()
		}), redisconn.ErrUnreachable, "hung up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			testkit.DialFails(t, tc.target, tc.is, tc.says)
		})
	}
}

// sayWithoutEnd says more than memory holds, and never ends its line.
func sayWithoutEnd(c net.Conn) {
	block := bytes.Repeat([]byte("x"), 64<<10)
	for {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// TestLongErrorIsCut: a command's error, too, which the connection survives.
func TestLongErrorIsCut(t *testing.T) {
	t.Parallel()
	long := "-ERR " + strings.Repeat("x", 1<<20) + "\r\n"
	target := testkit.FakeRedis(t, map[string]string{"get x": long})
	conn := testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
	defer conn.Close()

	for range 2 {
		err := conn.Get(t.Context(), "x").Err()
		if err == nil || len(err.Error()) > 4<<10 || !strings.HasSuffix(err.Error(), wire.CutMark) {
			t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
		}
	}

	if got, err := conn.Ping(t.Context()).Result(); got != "PONG" || err != nil {
		t.Errorf("then PING says %q, %v", got, err)
	}
}

func TestDialIsCancelled(t *testing.T) {
	accepted := make(chan struct{})
	target := listen(t, func(net.Conn) {
		close(accepted)
	})

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user pressed Ctrl-C")
	go func() {
		<-accepted
		cancel(cause)
	}()

	// and not that there was no answer
	if _, err := redisconn.To(target).Dial(ctx); !errors.Is(err, cause) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestDialPassword(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, backend.Local{Password: "SECRET"})
	testkit.Dial(t, s)
	without, wrong, stranger := s.Target, s.Target, s.Target
	without.Password, wrong.Password, stranger.Username = "", "incorrect", "nobody"
	testkit.DialFails(t, without, redisconn.ErrAuth, "REDIS_PASSWORD")
	testkit.DialFails(t, wrong, redisconn.ErrAuth, "--password-file")
	testkit.DialFails(t, stranger, redisconn.ErrAuth, "as user nobody")
}

// A client of another module needs nothing but its dialer, whatever its options.
func TestConnect(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		target := s.Target
		target.DB = 3
		conn := testkit.Dial(t, backend.NewServer(s.Name, target, "database 3", nil))

		for name, connect := range map[string]func(context.Context) (net.Conn, error){
			"to a server": func(ctx context.Context) (net.Conn, error) {
				return redisconn.To(target).Connect(ctx)
			},
			"once more": conn.Connect,
		} {
			for _, protocol := range []int{2, 3} {
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
					return connect(ctx)
				}
				rdb := redis.NewClient(&redis.Options{Protocol: protocol, Dialer: dial})
				err := rdb.Set(t.Context(), name, protocol, 0).Err()
				if err != nil || conn.GetDel(t.Context(), name).Val() == "" {
					t.Errorf("%s, RESP%d: %v", name, protocol, err)
				}
				rdb.Close()
			}
		}

		target.Password = "wrong"
		_, err := redisconn.To(target).Connect(t.Context())
		if !errors.Is(err, redisconn.ErrAuth) {
			t.Errorf("with a wrong password: %v", err)
		}
	})
}

func TestDialTooManyClients(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	testkit.Dial(t, s).ConfigSet(t.Context(), "maxclients", "1")

	// Whether the reply or the end of the connection is seen first is a race;
	// either will do.
	for range 10 {
		conn, err := redisconn.To(s.Target).Dial(t.Context())
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "maxclients") {
			t.Errorf("got %v, want advice on maxclients", err)
		}
	}
}

func TestUnixSocketAndDatabase(t *testing.T) {
	t.Parallel()
	// A socket's path is limited to about 100 bytes, which t.TempDir exceeds on
	// some systems.
	dir := testkit.Must(os.MkdirTemp("", "ms"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "redis.sock")
	s := testkit.Local(t, "--unixsocket", path)

	target := parse(t, "unix://:"+s.Target.Password+"@"+path+"?db=3")
	conn := testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
	defer conn.Close()

	testkit.Succeeds(t, conn.Set(t.Context(), "k", "v", 0).Err())
	if err := testkit.Dial(t, s).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("database 0 holds the key of database 3: %v", err)
	}
}

// A connection that the server closed while it was idle is replaced before a
// command is written to it.
func TestIdleConnectionLost(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	conn := testkit.Dial(t, s)
	other := testkit.Dial(t, s)
	kill := other.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes")
	testkit.Succeeds(t, kill.Err())
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
func awaitClients(t testing.TB, conn *redisconn.Conn, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		list := testkit.Must(conn.ClientList(t.Context()).Result())(t)
		if strings.Count(list, "\n") == n {
			return
		}
	}
}

func TestOneConnectionForEverything(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	conn := testkit.Dial(t, s)
	other := testkit.Dial(t, s)
	ctx := t.Context()
	incr := func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		return nil
	}
	testkit.Must(conn.Pipelined(ctx, incr))(t)

	err := conn.Watch(ctx, func(tx *redis.Tx) error {
		// The only connection is in use: the client waits for itself until the deadline.
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := conn.Get(short, "n").Err(); err == nil {
			t.Error("a client used inside its own Watch took a second connection")
		}
		_, err := tx.TxPipelined(ctx, incr)
		return err
	}, "n")

	if err != nil {
		t.Error(err)
	}
	awaitClients(t, other, 2)
}

func TestDeadlineEndsBlockingCommand(t *testing.T) {
	t.Parallel()
	conn := testkit.Dial(t, testkit.Local(t))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := conn.BLPop(ctx, 10*time.Minute, "list").Err(); err == nil {
		t.Error("BLPOP returned without an error")
	}
	if took := time.Since(start); took > time.Minute { // on a busy machine
		t.Errorf("a deadline of 50 ms took %v", took)
	}
}

func TestLostReplyRunsOnce(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	p := testkit.StartProxy(t, s)
	direct := testkit.Dial(t, s)
	ctx := t.Context()
	incr := func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		return nil
	}

	for _, tc := range []struct {
		name string
		do   func(c *redis.Client) error
	}{
		{"command", func(c *redis.Client) error {
			p.LoseReply("incr")
			return c.Incr(ctx, "n").Err()
		}},
		{"pipeline", func(c *redis.Client) error {
			p.LoseReply("incr")
			_, err := c.Pipelined(ctx, incr)
			return err
		}},
		{"transaction", func(c *redis.Client) error {
			p.LoseReply("exec")
			_, err := c.TxPipelined(ctx, incr)
			return err
		}},
		{"exec after watch", func(c *redis.Client) error {
			return c.Watch(ctx, func(tx *redis.Tx) error {
				p.LoseReply("exec")
				_, err := tx.TxPipelined(ctx, incr)
				return err
			}, "n")
		}},
		{"script", func(c *redis.Client) error {
			p.LoseReply("eval")
			return c.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"n"}).Err()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := testkit.Must(redisconn.To(p.Server().Target).Dial(ctx))(t)
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

// Whatever a Dialer is derived from, its clients send a command once; those that are to
// resend it are the only exception.
func TestLostReplyRunsOnceHoweverDialled(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	p := testkit.StartProxy(t, s)
	direct := testkit.Dial(t, s)
	ctx := t.Context()

	plain := redisconn.To(p.Server().Target)
	derived := map[string]redisconn.Dialer{
		"To": plain,
		"Over": redisconn.Over(func(ctx context.Context) (net.Conn, error) {
			return plain.Connect(ctx)
		}),
		"WithStats":        plain.WithStats(new(redisconn.Stats)),
		"WithDelay":        plain.WithDelay(time.Millisecond),
		"WithReplyTimeout": plain.WithReplyTimeout(time.Minute),
		"WithPipelining":   plain.WithPipelining(),
		"WithResends":      plain.WithResends(),
		"WithFollowing":    plain.WithFollowing(),
		"WithWrap": plain.WithWrap(func(ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {
			return dial(ctx)
		}),
	}
	for method := range reflect.TypeFor[redisconn.Dialer]().Methods() {
		if _, tried := derived[method.Name]; !tried && strings.HasPrefix(method.Name, "With") {
			t.Errorf("nobody tries what %s returns", method.Name)
		}
	}

	for name, dialer := range derived {
		t.Run(name, func(t *testing.T) {
			conn := testkit.Must(dialer.Dial(ctx))(t)
			defer conn.Close()
			direct.Del(ctx, "n")

			p.LoseReply("incr")
			_, err := conn.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Incr(ctx, "n").Err()
			})
			n := testkit.Must(direct.Get(ctx, "n").Int())(t)
			if again := name == "WithResends"; (n > 1) != again || (err == nil) != again {
				t.Errorf("a command whose reply was lost ran %d times: %v", n, err)
			}
		})
	}
}

// An error tells whether a byte of its command has left: a connection that is not free,
// that is refused or whose handshake is not answered has sent nothing.
func TestUnsent(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)

	for name, tc := range map[string]struct {
		breaks func(p *testkit.Proxy)
		waits  time.Duration
		unsent bool
	}{
		"refused": {func(p *testkit.Proxy) {
			p.Close()
		}, time.Minute, true},
		// Cut breaks the connection, and Partition lets no other one be answered.
		"unanswered": {func(p *testkit.Proxy) {
			p.Cut()
			p.Partition()
		}, 100 * time.Millisecond, true},
		"reply lost": {func(p *testkit.Proxy) {
			p.LoseReply("incr")
		}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.StartProxy(t, s)
			conn := testkit.Must(redisconn.To(p.Server().Target).Dial(t.Context()))(t)
			defer conn.Close()

			tc.breaks(p)
			if tc.unsent {
				// That its connection has ended may come late to a busy machine: then a command is sent.
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				for conn.Ping(ctx).Err() == nil {
				}
			}

			ctx, cancel := context.WithTimeout(t.Context(), tc.waits)
			defer cancel()
			_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "n")
				return nil
			})
			if err == nil || redisconn.Unsent(err) != tc.unsent {
				t.Errorf("%v: nothing was sent: %t, want %t", err, redisconn.Unsent(err), tc.unsent)
			}
		})
	}

	conn := testkit.Dial(t, s)
	_ = conn.Watch(t.Context(), func(*redis.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := conn.Incr(ctx, "n").Err(); !redisconn.Unsent(err) {
			t.Errorf("%v, and a command that got no connection has sent nothing", err)
		}
		return nil
	}, "n")
}

// The control: go-redis as it comes does run a command twice, so the test above can fail.
func TestLostReplyRunsTwiceByDefault(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	p := testkit.StartProxy(t, s)
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), Password: s.Target.Password})
	defer client.Close()
	testkit.Succeeds(t, client.Ping(t.Context()).Err())
	p.LoseReply("incr")
	if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 2 {
		t.Errorf("got %d, %v; want 2: the first reply was lost and the command sent again", n, err)
	}
}

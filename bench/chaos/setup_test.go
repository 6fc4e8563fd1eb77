package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

const (
	// silence is how long a test waits for an answer that is not expected: long enough for a command to get as far as it
	// can, on a busy machine too.
	silence = time.Second
	// soon is how long a test waits for what should happen soon. It passes only if that does not happen.
	soon = time.Minute
)

// client is a worker's connection, by line 1, that has carried something already.
func client(t *testing.T, s *Setup) *backend.Conn {
	t.Helper()
	s.dials.Store(0)
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// set tries to write a key, and gives up after a while.
func set(ctx context.Context, conn *backend.Conn, key string, after time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	return conn.Set(ctx, key, "x", 0).Err()
}

// holds reports whether the server has a key.
func holds(t *testing.T, s *Setup, key string) bool {
	t.Helper()
	conn, err := s.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := conn.Exists(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// eventually polls a condition until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, soon)
		}
	}
}

// TestFaults strikes with each fault of a connection while a client writes, and heals it: was the write made, and when?
func TestFaults(t *testing.T) {
	s := open(t)
	for i, c := range []struct {
		fault        Fault
		told         bool // that it was done
		during, then bool // whether it was done during the fault, and once that was healed
	}{
		{Fault{Kind: Latency, Delay: 5 * time.Millisecond}, true, true, true},
		{Fault{Kind: Partition, Up: true}, false, false, true}, // late
		{Fault{Kind: Partition}, false, true, true},
		{Fault{Kind: BlackHole, Up: true}, false, false, false},
		{Fault{Kind: BlackHole}, false, true, true},
		{Fault{Kind: Reset}, false, false, false},
		{Fault{Kind: Cut, Bytes: 5}, false, false, false},
		{Fault{Kind: LostReply, Bytes: 0}, false, true, true},
		{Fault{Kind: Refuse}, false, false, false},
		{Fault{Kind: Reset, Line: 2}, true, true, true}, // not this client's line
		{Fault{Kind: Reset, Line: 1}, false, false, false},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			key := fmt.Sprint("key", i)
			conn := client(t, s)
			heal, err := s.damage(t.Context(), c.fault, nil)
			if err != nil {
				t.Fatal(err)
			}
			limit := silence
			if c.told {
				limit = soon
			}
			if err := set(t.Context(), conn, key, limit); (err == nil) != c.told {
				t.Errorf("the client is told %v", err)
			}
			if c.during { // it may be under way still
				eventually(t, "the write", func() bool { return holds(t, s, key) })
			}
			if got := holds(t, s, key); got != c.during {
				t.Errorf("during the fault, that the write was done is %v", got)
			}
			if err := heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.then { // what was late is under way
				eventually(t, "the write", func() bool { return holds(t, s, key) })
			}
			if err := s.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := holds(t, s, key); got != c.then {
				t.Errorf("after the fault, that the write was done is %v", got)
			}
			if err := set(t.Context(), client(t, s), key, soon); err != nil {
				t.Errorf("after the fault, a new client is told %v", err)
			}
		})
	}
}

func TestKilledServerComesBackWithItsData(t *testing.T) {
	s := open(t)
	conn := client(t, s)
	if err := set(t.Context(), conn, "kept", soon); err != nil {
		t.Fatal(err)
	}
	pid := s.Server().PID()
	heal, err := s.damage(t.Context(), Fault{Kind: ServerKill}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if set(t.Context(), conn, "lost", soon) == nil {
		t.Error("a write succeeded on a dead server")
	}
	// Somebody else gets the port meanwhile.
	other, err := net.Listen("tcp", s.Server().Target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan int64, 1)
	go func() {
		var n int64
		for {
			c, err := other.Accept()
			if err != nil {
				received <- n
				return
			}
			more, _ := io.Copy(io.Discard, c)
			n += more
			c.Close()
		}
	}()
	if fresh, err := s.Dial(t.Context()); err == nil {
		fresh.Close()
		t.Error("a worker connects to a dead server")
	}
	other.Close()
	if n := <-received; n > 0 {
		t.Errorf("another program's server got %d bytes", n)
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Server().PID() == pid {
		t.Error("the server was not killed")
	}
	if !holds(t, s, "kept") || holds(t, s, "lost") {
		t.Error("the server has not what it had")
	}
	if err := set(t.Context(), client(t, s), "new", soon); err != nil {
		t.Error(err)
	}
}

func TestPausedServerGoesOn(t *testing.T) {
	s := open(t)
	conn := client(t, s)
	heal, err := s.damage(t.Context(), Fault{Kind: ServerPause}, nil)
	if errors.Is(err, backend.ErrUnavailable) {
		testkit.Require(t, "signals", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), conn, "late", silence); !errors.Is(err, context.DeadlineExceeded) {
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("a write on a stopped server: %v", err)
		}
	}
	if err := errors.Join(heal(t.Context()), s.Settle(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !holds(t, s, "late") {
		t.Error("what had been sent to the stopped server was not there when Settle returned")
	}
}

// TestSettleWaits: as long as somebody is connected, something may still arrive.
func TestSettleWaits(t *testing.T) {
	s := open(t)
	direct, err := s.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	settled := make(chan error, 1)
	go func() { settled <- s.Settle(t.Context()) }()
	eventually(t, "a look at who is connected", func() bool {
		stats := direct.Info(t.Context(), "commandstats").Val()
		const calls = "cmdstat_client|list:calls="
		return strings.Contains(stats, calls) && !strings.Contains(stats, calls+"1,")
	})
	select {
	case err := <-settled:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	direct.Close()
	if err := <-settled; err != nil {
		t.Error(err)
	}
}

// TestSettle shows that nobody is connected any more when Settle returns, and that workers can come back.
func TestSettle(t *testing.T) {
	s := open(t)
	conn := client(t, s)
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct, err := s.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if list := strings.TrimSpace(direct.ClientList(t.Context()).Val()); strings.Contains(list, "\n") {
		t.Errorf("somebody is still connected:\n%s", list)
	}
	if err := set(t.Context(), conn, "again", soon); err != nil {
		t.Errorf("a client of before is told %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := open(t)
	addr := s.Server().Target.Addr
	// A paused server must not stay either.
	if err := s.server.Pause(); err != nil && !errors.Is(err, backend.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server still listens")
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// As if Close had come just before a restart.
	if err := s.server.Restart(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a closed setup starts a server: %v", err)
	}
}

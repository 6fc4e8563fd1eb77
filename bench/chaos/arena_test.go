package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// soon bounds a command that is not expected to be answered.
const soon = 100 * time.Millisecond

// client is a worker's connection, by line 1, that has carried something already.
func client(t *testing.T, a *Arena) *backend.Conn {
	t.Helper()
	a.dials.Store(0)
	conn, err := a.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// set tries to write a key, and is content with no answer.
func set(ctx context.Context, conn *backend.Conn, key string) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return conn.Set(ctx, key, "x", 0).Err()
}

// holds reports whether the server has a key.
func holds(t *testing.T, a *Arena, key string) bool {
	t.Helper()
	conn, err := a.Direct(t.Context())
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
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// TestFaults strikes with each fault of a connection while a client writes, heals it, and looks what became of the write.
func TestFaults(t *testing.T) {
	a := Open(t)
	for i, c := range []struct {
		fault        Fault
		told         bool // that it was done
		during, then bool // whether it was done during the fault, and once that was healed
	}{
		{Fault{Kind: Latency, Delay: 5 * time.Millisecond}, true, true, true},
		{Fault{Kind: Stall, Up: true}, false, false, true}, // late
		{Fault{Kind: Stall}, false, true, true},
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
			conn := client(t, a)
			heal, err := a.strike(c.fault, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := set(t.Context(), conn, key); (err == nil) != c.told {
				t.Errorf("the client is told %v", err)
			}
			if got := holds(t, a, key); got != c.during {
				t.Errorf("during the fault, that the write was done is %v", got)
			}
			if err := heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.then { // what was late is under way
				eventually(t, "the write", func() bool { return holds(t, a, key) })
			}
			if err := a.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := holds(t, a, key); got != c.then {
				t.Errorf("after the fault, that the write was done is %v", got)
			}
			if err := set(t.Context(), client(t, a), key); err != nil {
				t.Errorf("after the fault, a new client is told %v", err)
			}
		})
	}
}

func TestKilledServerComesBackWithItsData(t *testing.T) {
	a := Open(t)
	conn := client(t, a)
	if err := set(t.Context(), conn, "kept"); err != nil {
		t.Fatal(err)
	}
	pid := a.Server().PID()
	heal, err := a.strike(Fault{Kind: ServerKill}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if set(t.Context(), conn, "lost") == nil {
		t.Error("a write succeeded on a dead server")
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.Server().PID() == pid {
		t.Error("the server was not killed")
	}
	if !holds(t, a, "kept") || holds(t, a, "lost") {
		t.Error("the server has not what it had")
	}
	if err := set(t.Context(), client(t, a), "new"); err != nil {
		t.Error(err)
	}
}

func TestPausedServerGoesOn(t *testing.T) {
	if !pausable {
		t.Skip("processes cannot be stopped here")
	}
	a := Open(t)
	conn := client(t, a)
	heal, err := a.strike(Fault{Kind: ServerPause}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), conn, "late"); !errors.Is(err, context.DeadlineExceeded) {
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("a write on a stopped server: %v", err)
		}
	}
	if err := errors.Join(heal(t.Context()), a.Settle(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !holds(t, a, "late") {
		t.Error("what had been sent to the stopped server was not there when Settle returned")
	}
}

// TestSettleWaits: as long as somebody is connected, something may still arrive.
func TestSettleWaits(t *testing.T) {
	a := Open(t)
	direct, err := a.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	settled := make(chan error, 1)
	go func() { settled <- a.Settle(t.Context()) }()
	eventually(t, "a look at who is connected", func() bool {
		stats := direct.Info(t.Context(), "commandstats").Val()
		return strings.Contains(stats, "cmdstat_client|list:calls=") && !strings.Contains(stats, "cmdstat_client|list:calls=1,")
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
	a := Open(t)
	conn := client(t, a)
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct, err := a.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if list := strings.TrimSpace(direct.ClientList(t.Context()).Val()); strings.Contains(list, "\n") {
		t.Errorf("somebody is still connected:\n%s", list)
	}
	if err := set(t.Context(), conn, "again"); err != nil {
		t.Errorf("a client of before is told %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a := Open(t)
	addr := a.Server().Target.Addr
	if err := pauseIfPossible(a); err != nil { // a stopped server must not stay either
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server still listens")
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Mkdir(a.folder, 0o700); err != nil { // as if Close had come while a server was started
		t.Fatal(err)
	}
	if err := a.restart(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("a closed arena starts a server: %v", err)
	}
}

func pauseIfPossible(a *Arena) error {
	if !pausable {
		return nil
	}
	return pause(a.Server().PID())
}

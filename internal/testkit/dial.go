package testkit

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/redisconn"
)

// DialFails dials and checks the error's kind, its advice, and that it came soon: after 4
// seconds at most on a machine that does nothing else. If says is empty, Dial has to
// succeed. With nil for is, the error may be of any kind.
func DialFails(t testing.TB, target redisconn.Target, is error, says string) {
	t.Helper()
	start := time.Now()
	conn, err := redisconn.To(target).Dial(t.Context())
	if took := time.Since(start); took > 20*time.Second {
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
	if says == "" || !strings.Contains(err.Error(), says) || is != nil && !errors.Is(err, is) {
		t.Errorf("got %v, want %v saying %q", err, is, says)
	}
	if target.Password != "" && strings.Contains(err.Error(), target.Password) {
		t.Errorf("%v shows the password", err)
	}
}

// FakeRedis answers each command with a reply in Redis's protocol, PING with PONG, and any
// other with an error. A reply's key is the whole command in lower case, such as "hello 3".
// The server reads replies until the test ends: they must not be changed.
func FakeRedis(t testing.TB, replies map[string]string) redisconn.Target {
	t.Helper()
	s := Must(server.NewServer("127.0.0.1:0"))(t)
	t.Cleanup(s.Close)

	s.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		command := strings.ToLower(strings.Join(append([]string{cmd}, args...), " "))
		reply, ok := replies[command]
		switch {
		case ok:
			c.WriteRaw(reply)
		case cmd == "PING":
			c.WriteInline("PONG")
		default:
			c.WriteError("ERR unknown command")
		}
		return true
	})
	return redisconn.Target{Network: "tcp", Addr: s.Addr().String()}
}

// Folders lists what servers left in the temporary folder, which the test has set.
func Folders(t testing.TB) []string {
	t.Helper()
	entries := Must(os.ReadDir(os.TempDir()))(t)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "marketsim-") {
			names = append(names, e.Name())
		}
	}
	return names
}

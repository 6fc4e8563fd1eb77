package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestPreflightVersions(t *testing.T) {
	for _, tc := range []struct {
		name, server, persistence string
		is                        error
	}{
		{"old", "redis_version:6.0.16", "", backend.ErrUnsuitable},
		{"older", "redis_version:5.9", "", backend.ErrUnsuitable},
		{"none", "", "", backend.ErrUnsuitable},
		{"oldest that will do", "redis_version:6.2.0", "loading:0", nil},
		{"valkey", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", "", nil},
		{"two digits", "redis_version:10.0.0", "", nil},
		{"loading", "redis_version:7.0.15", "loading:1", backend.ErrUnsuitable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := fakeRedis(t, map[string]string{
				"info server":  bulk("# Server\r\n" + tc.server + "\r\n"),
				"info default": bulk("# Server\r\n" + tc.server + "\r\n" + tc.persistence + "\r\nrole:master"),
			})
			conn := testkit.Must(backend.Dial(t.Context(), target))(t)
			defer conn.Close()
			if err := backend.Preflight(t.Context(), conn); !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %v", err, tc.is)
			}
			info := testkit.Must(backend.NewServer(backend.NameURL, target, "fake", nil).Info(t.Context()))(t)
			if tc.name == "valkey" && (info.Product != "valkey" || info.Version != "8.0.1") {
				t.Errorf("Valkey is taken for %+v", info)
			}
		})
	}
}

func TestReplica(t *testing.T) {
	master := testkit.Local(t)
	host, port, _ := strings.Cut(master.Target.Addr, ":")
	replica := testkit.Local(t, "--replicaof", host+" "+port)
	if err := backend.Preflight(t.Context(), testkit.Dial(t, master)); err != nil {
		t.Error(err)
	}
	conn := testkit.Dial(t, replica)
	err := backend.Preflight(t.Context(), conn)
	if !errors.Is(err, backend.ErrUnsuitable) || !strings.Contains(err.Error(), "master at "+master.Target.Addr) {
		t.Errorf("got %v, want ErrUnsuitable with the master's address", err)
	}
	explained(t, conn.Set(t.Context(), "k", "v", 0).Err(), "connect to its master")
}

// fakeRedis answers each command by its name with a reply in Redis's protocol, PING with
// PONG, and any other with an error.
func fakeRedis(t *testing.T, replies map[string]string) backend.Target {
	t.Helper()
	s := testkit.Must(server.NewServer("127.0.0.1:0"))(t)
	t.Cleanup(s.Close)
	s.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		reply, ok := replies[strings.ToLower(strings.Join(append([]string{cmd}, args...), " "))]
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
	return backend.Target{Network: "tcp", Addr: s.Addr().String()}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

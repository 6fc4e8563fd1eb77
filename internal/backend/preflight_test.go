package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A server is refused that is older than Redis 6.2 or still loads its data. Valkey is known by
// its own version, and not by that of the Redis that it names.
func TestPreflightVersions(t *testing.T) {
	for _, tc := range []struct {
		name, server, persistence string
		is                        error
	}{
		{"old", "redis_version:6.0.16", "", redisconn.ErrUnsuitable},
		{"older", "redis_version:5.9", "", redisconn.ErrUnsuitable},
		{"none", "", "", redisconn.ErrUnsuitable},
		{"oldest that will do", "redis_version:6.2.0", "loading:0", nil},
		{"valkey", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", "", nil},
		{"two digits", "redis_version:10.0.0", "", nil},
		{"loading", "redis_version:7.0.15", "loading:1", redisconn.ErrUnsuitable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := testkit.FakeRedis(t, map[string]string{
				"info server":  bulk("# Server\r\n" + tc.server + "\r\n"),
				"info default": bulk("# Server\r\n" + tc.server + "\r\n" + tc.persistence + "\r\nrole:master"),
			})
			conn := testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
			defer conn.Close()

			if err := backend.Preflight(t.Context(), conn); !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %v", err, tc.is)
			}

			info := testkit.Must(backend.NewServer(backend.OriginURL, target, "fake", nil).Info(t.Context()))(t)
			if tc.name == "valkey" && (info.Product != "valkey" || info.Version != "8.0.1") {
				t.Errorf("Valkey is taken for %+v", info)
			}
		})
	}
}

// A replica is refused, and the error names its master.
func TestReplica(t *testing.T) {
	master := testkit.Local(t)
	host, port, _ := strings.Cut(master.Target.Addr, ":")
	replica := testkit.Local(t, "--replicaof", host+" "+port)

	if err := backend.Preflight(t.Context(), testkit.Dial(t, master)); err != nil {
		t.Error(err)
	}

	conn := testkit.Dial(t, replica)
	err := backend.Preflight(t.Context(), conn)
	if !errors.Is(err, redisconn.ErrUnsuitable) || !strings.Contains(err.Error(), "master at "+master.Target.Addr) {
		t.Errorf("got %v, want ErrUnsuitable with the master's address", err)
	}

	err = redisconn.Explain(conn.Set(t.Context(), "k", "v", 0).Err())
	if err == nil || !strings.Contains(err.Error(), "connect to its master") {
		t.Errorf("a write to a replica: %v", err)
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

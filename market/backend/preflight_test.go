package backend_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestPreflight(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		if err := backend.Preflight(t.Context(), backendtest.Dial(t, s)); err != nil {
			t.Error(err)
		}
	})
}

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
		{"loading", "redis_version:7.0.15", "loading:1", backend.ErrLoading},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := fakeRedis(t, map[string]string{
				"info server":      bulk("# Server\r\n" + tc.server + "\r\n"),
				"info persistence": bulk(tc.persistence),
				"info replication": bulk("role:master"),
			})
			conn, err := backend.Dial(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := backend.Preflight(t.Context(), conn); !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %v", err, tc.is)
			}
			info, err := backend.NewServer(backend.KindURL, target, "fake", nil).Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tc.name == "valkey" && (info.Product != "valkey" || info.Version != "8.0.1") {
				t.Errorf("Valkey is taken for %+v", info)
			}
		})
	}
}

func TestReplica(t *testing.T) {
	master := backendtest.Local(t)
	host, port, _ := strings.Cut(master.Target.Addr, ":")
	replica := backendtest.Local(t, "--replicaof", host+" "+port)
	conn := backendtest.Dial(t, replica)
	err := backend.Preflight(t.Context(), conn)
	if !errors.Is(err, backend.ErrUnsuitable) || !strings.Contains(err.Error(), "master at "+master.Target.Addr) {
		t.Errorf("got %v, want ErrUnsuitable with the master's address", err)
	}
	explained(t, conn.Set(t.Context(), "k", "v", 0).Err(), "connect to its master")
}

// explained checks that Explain adds a next step and keeps the cause.
func explained(t *testing.T, err error, says string) {
	t.Helper()
	got := backend.Explain(err)
	if err == nil || !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
		t.Errorf("%v is explained as %v, want it to say %q", err, got, says)
	}
}

func TestDenied(t *testing.T) {
	acl := filepath.Join(t.TempDir(), "users.acl")
	rules := "user default on nopass ~* &* +@all\n" +
		"user bob on >secret ~test:* &* +@all -zrandmember -config|get -info\n"
	if err := os.WriteFile(acl, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := backendtest.Local(t, "--aclfile", acl)
	target := s.Target
	target.Username, target.Password = "bob", "secret"
	bob, err := backend.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	ctx := t.Context()
	for _, tc := range []struct {
		name, command string
		err           error
	}{
		{"command", "zrandmember", bob.ZRandMember(ctx, "test:z", 1).Err()},
		{"subcommand", "config|get", bob.ConfigGet(ctx, "save").Err()},
		{"key", "", bob.Get(ctx, "elsewhere").Err()},
	} {
		command, ok := backend.Denied(tc.err)
		if !ok || command != tc.command {
			t.Errorf("%s: %v is read as %q, %v", tc.name, tc.err, command, ok)
		}
		explained(t, tc.err, "ACL SETUSER <user> ")
	}
	if err := backend.Preflight(ctx, bob); err == nil || !strings.Contains(err.Error(), "+info") {
		t.Errorf("Preflight says %v, want that INFO is missing", err)
	}
	info, err := backend.NewServer(backend.KindURL, s.Target, "", nil).Info(ctx)
	if err != nil || info.Product != "redis" || info.Version == "" || info.Config["maxmemory"] != "0" {
		t.Errorf("Info says %+v, %v", info, err)
	}
}

func TestDeniedSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'get' command or its subcommand":                           "get",
		"NOPERM this user has no permissions to run the 'config|get' command":                                      "config|get",
		"NOPERM User bob has no permissions to run the 'zadd' command":                                             "zadd",
		"NOPERM ACL failure in script: User bob has no permissions to run the 'zadd' command":                      "zadd",
		"NOPERM this user has no permissions to access one of the keys used as arguments":                          "",
		"NOPERM No permissions to access a channel":                                                                "",
		"EXECABORT Transaction discarded because of: NOPERM User bob has no permissions to run the 'zadd' command": "zadd",
	} {
		if got, ok := backend.Denied(replyError(text)); got != want || !ok {
			t.Errorf("%s: read as %q, %v", text, got, ok)
		}
	}
	for _, err := range []error{nil, errors.New("has no permissions to run the 'x' command"), replyError("ERR x")} {
		if _, ok := backend.Denied(err); ok {
			t.Errorf("%v is taken for a denial", err)
		}
		if got := backend.Explain(err); got != err {
			t.Errorf("%v is explained as %v", err, got)
		}
	}
}

// replyError is an error as a server sends it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

var _ redis.Error = replyError("")

func TestExplain(t *testing.T) {
	conn := backendtest.Dial(t, backendtest.Local(t, "--maxmemory", "1mb"))
	explained(t, conn.Set(t.Context(), "k", strings.Repeat("x", 1<<20), 0).Err(), "raise maxmemory")
	explained(t, replyError("EXECABORT Transaction discarded because of: OOM command not allowed"), "raise maxmemory")
	explained(t, replyError("MISCONF Redis is configured to save RDB snapshots"), "CONFIG SET save")
	explained(t, replyError("LOADING Redis is loading the dataset in memory"), "try again")
}

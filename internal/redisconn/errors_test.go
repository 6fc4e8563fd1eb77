package redisconn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// explained checks that Explain adds a next step and keeps the cause.
func explained(t *testing.T, err error, says string) {
	t.Helper()
	got := redisconn.Explain(err)
	if err == nil || !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
		t.Errorf("%v is explained as %v, want it to say %q", err, got, says)
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	acl := filepath.Join(t.TempDir(), "users.acl")
	rules := "user default on nopass ~* &* +@all\n" +
		"user bob on >secret ~test:* &* +@all -zrandmember -config|get -info\n"
	testkit.Succeeds(t, os.WriteFile(acl, []byte(rules), 0o600))

	s := testkit.Local(t, "--aclfile", acl)
	target := s.Target
	target.Username = "bob"
	target.Password = "secret"
	bob := testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
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
		command, ok := redisconn.Denied(tc.err)
		if !ok || command != tc.command {
			t.Errorf("%s: %v is read as %q, %v", tc.name, tc.err, command, ok)
		}
		explained(t, tc.err, "ACL SETUSER <user> ")
	}

	if err := backend.Preflight(ctx, bob); err == nil || !strings.Contains(err.Error(), "+info") {
		t.Errorf("Preflight says %v, want that INFO is missing", err)
	}

	info, err := backend.NewServer(backend.OriginURL, s.Target, "", nil).Info(ctx)
	if err != nil || info.Product != "redis" || info.Version == "" || info.Config["maxmemory"] != "0" {
		t.Errorf("Info says %+v, %v", info, err)
	}
}

// A refused command is recognized however the server says it, and is named if the server
// names it.
func TestDeniedSpellings(t *testing.T) {
	for _, c := range []struct{ text, command string }{
		{"NOPERM this user has no permissions to run the 'get' command or its subcommand", "get"},
		{"NOPERM this user has no permissions to run the 'config|get' command", "config|get"},
		{"NOPERM User bob has no permissions to run the 'zadd' command", "zadd"},
		{"NOPERM ACL failure in script: User bob has no permissions to run the 'zadd' command", "zadd"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", ""},
		{"NOPERM No permissions to access a channel", ""},
		{
			"EXECABORT Transaction discarded because of: " +
				"NOPERM User bob has no permissions to run the 'zadd' command", "zadd",
		},
	} {
		if got, ok := redisconn.Denied(answer(c.text)); got != c.command || !ok {
			t.Errorf("%s: read as %q, %v", c.text, got, ok)
		}
	}

	other := []error{nil, errors.New("has no permissions to run the 'x' command"), answer("ERR x")}
	for _, err := range other {
		if _, ok := redisconn.Denied(err); ok {
			t.Errorf("%v is taken for a denial", err)
		}
		if got := redisconn.Explain(err); got != err {
			t.Errorf("%v is explained as %v", err, got)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	conn := testkit.Dial(t, testkit.Local(t, "--maxmemory", "1mb"))
	explained(t, conn.Set(t.Context(), "k", strings.Repeat("x", 1<<20), 0).Err(), "raise maxmemory")
	full := answer("EXECABORT Transaction discarded because of: OOM command not allowed")
	explained(t, full, "raise maxmemory")
	explained(t, answer("MISCONF Redis is configured to save RDB snapshots"), "CONFIG SET save")
	explained(t, answer("LOADING Redis is loading the dataset in memory"), "try again")
}

// late is a context whose deadline has passed and that has not ended yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestConnectionTimesOutBeforeTheContext(t *testing.T) {
	err := redisconn.OfContext(late{t.Context()}, os.ErrDeadlineExceeded)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a time-out at the context's deadline: %v", err)
	}
	err = redisconn.OfContext(t.Context(), os.ErrDeadlineExceeded)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a time-out of the connection's own: %v", err)
	}
}

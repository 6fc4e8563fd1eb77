package backend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A local server is private and writes no data to disk. It may be closed twice, and is gone
// then.
func TestLocal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := testkit.Local(t)
	conn := testkit.Dial(t, s)
	testkit.Succeeds(t, conn.Set(t.Context(), "k", "v", 0).Err())

	got := s.Describe()
	if !strings.Contains(got, "private /") || !strings.Contains(got, s.Target.Addr) {
		t.Errorf("described as %q", got)
	}

	info, err := s.Info(t.Context())
	if err != nil || info.Version == "" ||
		info.Config["appendonly"] != "no" || info.Config["save"] != "" {
		t.Errorf("Info says %+v, %v", info, err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}

	testkit.DialFails(t, s.Target, redisconn.ErrUnreachable, "is it running")
}

// A server that does not start says why, and leaves no folder.
func TestLocalFails(t *testing.T) {
	testkit.Local(t) // or there is nothing to test
	t.Setenv("TMPDIR", t.TempDir())

	_, err := backend.Local{Args: []string{"--no-such-option", "1"}}.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("got %v, want the server's complaint", err)
	}

	_, err = backend.Local{Program: "no-such-server"}.Start(t.Context())
	if !errors.Is(err, process.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}

	t.Setenv("PATH", t.TempDir())
	_, err = backend.Local{}.Start(t.Context())
	if !errors.Is(err, process.ErrUnavailable) ||
		!strings.Contains(err.Error(), "redis-server or valkey-server in PATH") {
		t.Errorf("got %v, want ErrUnavailable", err)
	}

	if left := testkit.Folders(t); len(left) > 0 {
		t.Errorf("folders left: %v", left)
	}
}

// Two servers are to use one port: the second must not be mistaken for the first.
func TestLocalPortTaken(t *testing.T) {
	first, second := testkit.Local(t), testkit.Local(t)
	testkit.Succeeds(t, second.Kill())
	second.Target.Addr = first.Target.Addr
	_, second.Args[slices.Index(second.Args, "--port")+1], _ = strings.Cut(first.Target.Addr, ":")
	err := second.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "taken by another process") {
		t.Errorf("a second server on the first one's port: %v", err)
	}
}

// A server that is started again is another process at the same address. It has its data only
// if its options have it written to disk.
func TestRestart(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		lost bool
	}{
		{"empty", nil, true},
		{"with its data", []string{"--appendonly", "yes", "--appendfsync", "always"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			s := testkit.Local(t, tc.args...)
			pid, target := s.PID(), s.Target
			testkit.Succeeds(t, testkit.Dial(t, s).Set(t.Context(), "k", "v", 0).Err())

			testkit.Succeeds(t, s.Restart(t.Context()))
			if s.Target != target || s.PID() == pid {
				t.Errorf("process %d at %v is process %d at %v", pid, target, s.PID(), s.Target)
			}

			err := testkit.Dial(t, s).Get(t.Context(), "k").Err()
			if lost := errors.Is(err, redis.Nil); lost != tc.lost || err != nil && !lost {
				t.Errorf("reading what was written before: %v; want it lost: %v", err, tc.lost)
			}

			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if left := testkit.Folders(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

package backend_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestLocalHasItsOwnProcessGroup(t *testing.T) {
	s := testkit.Local(t)
	group := testkit.Must(syscall.Getpgid(s.PID()))(t)
	if group != s.PID() || group == syscall.Getpgrp() {
		t.Errorf("server %d is in process group %d, the test in %d", s.PID(), group, syscall.Getpgrp())
	}
}

// Another user of the machine sees a server's arguments and its port, and does not get
// in. Nor do private servers that do not belong together.
func TestPrivateServersAskForAPassword(t *testing.T) {
	other := testkit.Embedded(t)
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		strange, without := s.Target, s.Target
		strange.Password, without.Password = other.Target.Password, ""

		testkit.DialFails(t, strange, redisconn.ErrAuth, "the password")
		testkit.DialFails(t, without, redisconn.ErrAuth, "without a password")
		testkit.Dial(t, s)

		seen := fmt.Sprintf("%+v %v %s", s.Target, s.Describe(), s.Passed)
		if s.Name == backend.OriginLocal {
			for _, file := range []string{"cmdline", "environ"} {
				text := testkit.Must(os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.PID(), file)))(t)
				seen += string(text)
			}
			seen += s.Log()
		}

		if len(s.Target.Password) < 26 || strings.Contains(seen, s.Target.Password) {
			t.Errorf("the password %q is seen in %q", s.Target.Password, seen)
		}
	})
}

// A killed marketsim cannot clean up, so the system has to.
func TestLocalDiesWithItsParent(t *testing.T) {
	testkit.Local(t) // or there is nothing to test
	t.Setenv("TMPDIR", t.TempDir())
	killed := startParent(t)
	testkit.DialFails(t, killed.target, nil, "") // it runs
	killed.kill(t)
}

// The next start removes the folder of a server that was killed with its
// parent, and none else.
func TestStartRemovesFoldersOfTheKilled(t *testing.T) {
	testkit.Local(t) // or there is nothing to test
	t.Setenv("TMPDIR", t.TempDir())

	startParent(t)
	alive := testkit.Folders(t)
	startParent(t).kill(t)
	left := testkit.Folders(t)
	testkit.Local(t)

	var gone int
	for _, folder := range left {
		if _, err := os.Stat(filepath.Join(os.TempDir(), folder)); err != nil {
			gone++
		}
	}
	if len(alive) != 1 || len(left) != 2 || gone != 1 || !slices.Contains(testkit.Folders(t), alive[0]) {
		t.Errorf("of %q, of which %q is in use, there are %q", left, alive, testkit.Folders(t))
	}

	// As if it had been another user's.
	startParent(t).kill(t)
	for _, folder := range testkit.Folders(t) {
		if err := os.Chown(filepath.Join(os.TempDir(), folder), 1, -1); err != nil {
			t.Skip("only root can make folders of another user: ", err)
		}
	}

	before := len(testkit.Folders(t))
	testkit.Local(t)
	if now := len(testkit.Folders(t)); now != before+1 {
		t.Errorf("%d folders of another user, with one more of ours there are %d", before, now)
	}
}

// A parentProcess is a process that has started a server.
type parentProcess struct {
	*exec.Cmd
	server int
	target redisconn.Target
}

func startParent(t *testing.T) parentProcess {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	out := testkit.Must(parent.StdoutPipe())(t)
	testkit.Succeeds(t, parent.Start())

	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	var addr, password string
	if _, scanErr := fmt.Sscan(line, &pid, &addr, &password); err != nil || scanErr != nil {
		t.Fatalf("the parent said %q: %v", line, errors.Join(err, scanErr))
	}

	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	return parentProcess{parent, pid, redisconn.Target{Network: "tcp", Addr: addr, Password: password}}
}

// kill returns when its server is gone, too.
func (p parentProcess) kill(t *testing.T) {
	t.Helper()
	testkit.Succeeds(t, p.Process.Kill())
	_ = p.Wait() // it was killed, and says so

	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		// A process that is about to end holds its files for a moment longer,
		// and so do its threads.
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.server))
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.server))
		ended := len(stat) == 0 || bytes.Contains(stat, []byte(") Z ")) || bytes.Contains(stat, []byte(") X "))
		if ended && len(threads) <= 1 {
			return
		}

		if time.Now().After(deadline) {
			_ = syscall.Kill(p.server, syscall.SIGKILL)
			t.Fatal("the server outlived its parent")
		}
	}
}

// A server that does not end on request, here because it is stopped, is killed.
func TestLocalCloseKillsAStoppedServer(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	testkit.Succeeds(t, syscall.Kill(s.PID(), syscall.SIGSTOP))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(s.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server is still there: %v", err)
	}
}

package backend_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

func TestLocalHasItsOwnProcessGroup(t *testing.T) {
	s := testkit.Local(t)
	group, err := syscall.Getpgid(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group != s.PID() || group == syscall.Getpgrp() {
		t.Errorf("server %d is in process group %d, the test in %d", s.PID(), group, syscall.Getpgrp())
	}
}

// A killed marketsim cannot clean up, so the system has to.
func TestLocalDiesWithItsParent(t *testing.T) {
	testkit.Local(t) // or there is nothing to test
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	var addr string
	if _, scanErr := fmt.Sscan(line, &pid, &addr); err != nil || scanErr != nil {
		t.Fatalf("the parent said %q: %v", line, errors.Join(err, scanErr))
	}
	target := backend.Target{Network: "tcp", Addr: addr}
	dialFails(t, target, nil, "") // it runs
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed, and says so
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := backend.Dial(t.Context(), target)
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the server outlived its parent")
		}
	}
	if left := folders(t); len(left) > 0 {
		t.Errorf("the killed parent left %v", left)
	}
}

// A server that does not end on request, here because it is stopped, is killed.
func TestLocalCloseKillsAStoppedServer(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(s.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server is still there: %v", err)
	}
}

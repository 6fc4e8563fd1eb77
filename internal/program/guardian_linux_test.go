package program_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/testkit"
)

// leaves are the ways in which a script leaves a process behind, which says its process id.
var leaves = map[string]string{
	"in its group":      `sh -c 'echo $$; exec sleep 1000' & wait`,
	"in a session":      `setsid sh -c 'echo $$; exec sleep 1000' & wait`,
	"after two forks":   `(setsid sh -c 'echo $$; exec sleep 1000' >&1 &) ; sleep 1000`,
	"without a mark":    `setsid env -i /bin/sh -c 'echo $$; exec /bin/sleep 1000' & wait`,
	"by a parent's end": `(setsid env -i /bin/sh -c 'echo $$; exec /bin/sleep 1000' &) ; exit`,
	"without output":    `setsid sh -c 'echo $$; exec sleep 1000 <&- >/dev/null 2>&1' & wait`,
	"that ignores":      `setsid sh -c 'trap "" TERM HUP INT; echo $$; while :; do sleep 1; done' & wait`,
	"that is stopped":   `setsid sh -c 'echo $$; kill -STOP $$' & wait`,
}

// launched starts a shell script, tells it to begin, and returns it with the process id that
// it says.
func launched(t *testing.T, script, mark string) (p *program.Child, left int) {
	t.Helper()
	heard := make(chan program.Output, 100)
	launch := program.Launch{Name: "Alice", Command: []string{"/bin/sh", "-c", script}, Mark: mark}
	p = testkit.Must(launch.Start(func(o program.Output) {
		heard <- o
	}))(t)

	t.Cleanup(p.Close)
	p.Tell("begin")
	select {
	case o := <-heard:
		return p, testkit.Must(strconv.Atoi(o.Line))(t)
	case <-time.After(soon):
		t.Fatal("it says nothing")
	}
	return nil, 0
}

// runs reports whether a process is there.
func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, soon)
		}
	}
}

// Nothing of a program is left once it is closed, whatever it has done to stay.
func TestNothingOutlivesAProgram(t *testing.T) {
	for name, script := range leaves {
		t.Run(name, func(t *testing.T) {
			p, left := launched(t, script, "")
			if !runs(left) {
				t.Fatal("what it leaves behind does not run")
			}

			p.Close()
			if runs(left) {
				t.Errorf("process %d still runs", left)
				_ = syscall.Kill(left, syscall.SIGKILL)
			}
		})
	}
}

// A program may kill its own guardian: what it leaves is found by the mark in its environment.
func TestMarkEndsWhoKillsItsGuardian(t *testing.T) {
	g := testkit.Must(program.NewGuardian())(t)
	const script = `read -r begin; guardian=$PPID
setsid sh -c "echo \$\$; kill -9 $guardian; exec sleep 1000 >/dev/null 2>&1" & wait`
	p, left := launched(t, script, g.Mark)
	p.Wait()
	testkit.Succeeds(t, g.Close())
	eventually(t, "its end", func() bool {
		return !runs(left) || state(left) == "Z"
	})
}

// state is a letter for what a process does now: T, it is stopped.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	return after[:min(1, len(after))]
}

// A pause stops all that a program has started, in other sessions, too.
func TestPauseReachesOtherSessions(t *testing.T) {
	const script = `(setsid sh -c 'echo $$; while :; do :; done' &) ; read -r begin; read -r line`
	p, left := launched(t, script, "")

	p.Pause()
	eventually(t, "a stop", func() bool {
		return state(left) == "T"
	})
	eventually(t, "that all are stopped", func() bool {
		_, waiting := p.Activity()
		return waiting
	})

	p.Resume()
	eventually(t, "that it goes on", func() bool {
		return state(left) == "R"
	})
	if _, waiting := p.Activity(); waiting {
		t.Error("what runs in another session is not seen")
	}
}

// How a command of os/exec ends is for its own Wait, beside programs that leave orphans.
func TestOrphansAreNotReapedHere(t *testing.T) {
	const orphans = `for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 9' &) ; done; echo 0; sleep 1000`
	p, _ := launched(t, orphans, "")
	for range 20 {
		err := exec.Command("/bin/sh", "-c", "exit 3").Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 3 {
			t.Fatalf("a command that ends with 3 ends with %v", err)
		}
	}
	p.Close()
}

// What cannot be started is an error that says so.
func TestStartErrors(t *testing.T) {
	script := t.TempDir() + "/script"
	testkit.Succeeds(t, os.WriteFile(script, []byte("echo 1\n"), 0o700))
	for command, says := range map[string]string{
		script:             "a first line such as #!/bin/sh",
		"/no/such/program": "no such file",
		os.DevNull:         "permission denied",
	} {
		_, err := program.Launch{Command: []string{command}}.Start(func(program.Output) {})
		if !errors.Is(err, program.ErrStart) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want one that says %q", command, err, says)
		}
	}
}

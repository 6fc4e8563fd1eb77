package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
)

// A killed program leaves no process, and the next start removes its folders.
func TestKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // the child starts some of its own, or there is nothing to test
	for _, c := range []struct{ command, backend, stopping, folder string }{
		{"faults --lock setnx --scenario", "pause", "none", "marketsim-faults-*"},
		{"run --strategy lua --backend", "cluster", "redis-cli", "stopped"},
	} {
		t.Run(c.folder, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("redis-cli"); err != nil {
				testkit.Require(t, "redis", err.Error())
			}

			temporary, env := stopping(t, c.stopping)
			child := startChildIn(t, env, append(strings.Fields(c.command), c.backend)...)
			eventually(t, c.folder, func() bool {
				made, _ := filepath.Glob(filepath.Join(temporary, c.folder))
				return len(made) > 0
			})

			child.kill()
			eventually(t, "the end of what it started", func() bool {
				return len(withEnvironment(t, env[0])) == 0
			})

			startChildIn(t, env, short("run", "--strategy", "lua", "--backend", "local")...).end().
				exits(t, exitFine)
			isEmpty(t, temporary)
		})
	}
}

// Where judge is killed, or interrupted, nothing is left of the programs that
// it judges, stopped or not.
func TestJudgedProgramsEndWithJudge(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // or there is nothing to judge them on
	for name, end := range map[string]func(*child){
		"killed": (*child).kill, "interrupted": (*child).interrupt,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temporary, env := stopping(t, "redis-cli")

			const script = `trap '' HUP; sleep 1000 & kill -STOP $!; : >"$TMPDIR/stopped"
				while read -r line; do :; done; sleep 1000`
			c := startChildIn(t, env, "judge", "--", "/bin/sh", "-c", script)
			eventually(t, "the program", func() bool { return exists(filepath.Join(temporary, "stopped")) })

			end(c)
			if name == "interrupted" {
				c.end().exits(t, exitInterrupted)
				isEmpty(t, temporary)
			}

			eventually(t, "the end of what it started", func() bool {
				return len(withEnvironment(t, env[0])) == 0
			})
		})
	}
}

// Who leaves while a server is being started waits for the removal of what there is of it.
func TestInterruptedTwiceWhileStarting(t *testing.T) {
	t.Parallel()
	temporary, env := stopping(t, "redis-server")
	c := startChildIn(t, env, "run", "--strategy", "lua", "--backend", "local")
	eventually(t, "the start", func() bool { return exists(filepath.Join(temporary, "stopped")) })
	c.interrupt()
	c.awaitStderr("interrupt again to leave at once")
	_ = c.cmd.Process.Signal(syscall.SIGINT) // it has two seconds for that, or has ended by itself
	c.end().exits(t, exitInterrupted)
	isEmpty(t, temporary)
}

// stopping is a temporary folder for a child, and an environment in which a program stops
// at once and does not end on request. It notes that it was started.
func stopping(t *testing.T, program string) (temporary string, env []string) {
	t.Helper()
	temporary, path := t.TempDir(), t.TempDir()
	const script = "#!/bin/sh\ntrap '' TERM HUP\n: >\"$TMPDIR/stopped\"\n" +
		"while :; do kill -STOP $$; done\n"
	testkit.Succeeds(t, os.WriteFile(filepath.Join(path, program), []byte(script), 0o700))
	return temporary, []string{"TMPDIR=" + temporary, "PATH=" + path + ":" + os.Getenv("PATH")}
}

// isEmpty checks that a folder is, but for that note.
func isEmpty(t *testing.T, folder string) {
	t.Helper()
	_ = os.Remove(filepath.Join(folder, "stopped")) // it need not be there
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// A program that may not open as many files as it needs leaves no folder.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	for files := 6; files < 10; files++ {
		temporary := t.TempDir()
		script := fmt.Sprintf(`ulimit -n %d; exec "$0" faults --scenario pause --lock setnx`, files)
		cmd := exec.Command("/bin/sh", "-c", script, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+temporary)
		out, err := cmd.CombinedOutput()
		t.Logf("%d files: %v\n%s", files, err, out)
		isEmpty(t, temporary)
	}
}

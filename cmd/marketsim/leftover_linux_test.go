package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
)

// escapes is a script that leaves three processes behind, which note their ids in a file
// each: in a session of its own, after two forks with an empty environment, and one that
// holds the output open.
const escapes = `at=$ESCAPED
leave="/bin/sh -c"
setsid sh -c 'echo $$ >"$ESCAPED/session.$$"; exec sleep 1000' </dev/null >/dev/null 2>&1 &
(setsid env -i /bin/sh -c "echo \$\$ >'$at/forked.'\$\$; exec /bin/sleep 1000" </dev/null >/dev/null 2>&1 &)
setsid env -i /bin/sh -c "echo \$\$ >'$at/holds.'\$\$; exec /bin/sleep 1000" &
`

// escaped waits until three processes have noted their ids in a folder, and returns those
// of all that have.
func escaped(t *testing.T, folder string) (pids []int) {
	t.Helper()
	eventually(t, "processes that escape", func() bool {
		pids = nil
		files, _ := filepath.Glob(filepath.Join(folder, "*.*"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= 3
	})
	return pids
}

// areGone checks that none of the processes is left.
func areGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Nothing of a judged program, or of one of --exec, outlives the command, however that
// ends: it is killed, it is interrupted, it is interrupted twice.
func TestNothingOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // or nothing is started
	const silent = "while read -r line; do :; done; sleep 1000"
	for name, args := range map[string][]string{
		"judge": {"judge", "--", "/bin/sh", "-c", escapes + silent},
		"exec":  {"run", "--strategy", "exec:mine", "--mix", "1x1", "--exec", script(t, escapes+silent)},
	} {
		for how, end := range map[string]func(*child){
			"killed":      (*child).kill,
			"interrupted": func(c *child) { c.interrupt() },
			"interrupted twice": func(c *child) {
				c.interrupt()
				c.awaitStderr("interrupt again to leave at once")
				_ = c.cmd.Process.Signal(syscall.SIGINT) // it may have ended by itself
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()

				temporary, folder := t.TempDir(), t.TempDir()
				c := startChildIn(t, []string{"TMPDIR=" + temporary, "ESCAPED=" + folder}, args...)
				escaped(t, folder)

				end(c)
				if how != "killed" {
					c.end().exits(t, exitInterrupted)
					isEmpty(t, temporary)
				}

				pids := escaped(t, folder)
				eventually(t, "the end of what the program has left", func() bool {
					for _, pid := range pids {
						if syscall.Kill(pid, 0) == nil {
							return false
						}
					}
					return true
				})
			})
		}
	}
}

// Nothing is left of a program once the run that measured it has ended by itself.
func TestNothingOutlivesARun(t *testing.T) {
	testkit.Local(t)
	folder := t.TempDir()
	t.Setenv("ESCAPED", folder)
	const answers = `while read -r word more; do [ $word = buy ] && echo gone || echo error; done`
	marketsim(t, short("run", "--strategy", "exec:mine",
		"--exec", script(t, escapes+answers), "--mix", "1x1")...).
		says(t, `said "error"`)
	areGone(t, escaped(t, folder))

	marketsim(t, "judge", "--within", "2s", "--",
		"/bin/sh", "-c", escapes+"read -r line; echo certainly").
		exits(t, exitUsage).says(t, `said "certainly"`)
	areGone(t, escaped(t, folder))
}

// Who leaves judge while its server does not start leaves no folder of it.
func TestJudgeInterruptedTwice(t *testing.T) {
	t.Parallel()
	temporary, env := stopping(t, "redis-server")
	c := startChildIn(t, env, "judge", "--", "/bin/cat")
	eventually(t, "the start", func() bool { return exists(filepath.Join(temporary, "stopped")) })
	c.interrupt()
	c.awaitStderr("interrupt again to leave at once")
	_ = c.cmd.Process.Signal(syscall.SIGINT) // it has two seconds for that
	c.end().exits(t, exitInterrupted)
	isEmpty(t, temporary)
}

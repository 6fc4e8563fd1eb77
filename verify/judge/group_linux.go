package judge

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const stop, goOn, end = syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGKILL

// supported is an error where programs cannot be stopped and looked at.
func supported() error { return nil }

// group gives a program a process group of its own, which dies with the thread that starts it.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end} }

// A guardian is a process that kills programs when this one has been killed: all that have its mark in their
// environment, whatever group they are in.
type guardian struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	mark string
}

func newGuardian() (*guardian, error) {
	g := &guardian{mark: "MARKETSIM_JUDGED=" + rand.Text()}
	const script = `PATH="$PATH:/usr/bin:/bin"
while read -r nothing; do :; done
for environ in /proc/[0-9]*/environ; do
	grep -qsF "$0" "$environ" || continue
	process=${environ%/environ}
	kill -9 "${process#/proc/}"
done 2>/dev/null`
	g.cmd = exec.Command("/bin/sh", "-c", script, g.mark)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the reach of a Ctrl-C
	var err error
	g.in, err = g.cmd.StdinPipe()
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the guardian of programs: %w", err)
	}
	return g, nil
}

// close has it kill what is left.
func (g *guardian) close() error {
	closed := g.in.Close()
	_ = g.cmd.Wait() // it says what grep has found
	return closed
}

// signal sends a signal to all processes of the group.
func (c *client) signal(s syscall.Signal) {
	if c.life != nil {
		_ = syscall.Kill(-c.life.cmd.Process.Pid, s) // which may have ended
	}
}

// slices is what every thread of the group has run so far, and whether all of them wait now.
func (c *client) slices() (ran string, waits bool) {
	waits = true
	var b strings.Builder
	for _, pid := range append([]int{c.life.cmd.Process.Pid}, children(c.life.cmd.Process.Pid)...) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			stat, err := os.ReadFile(task + "/stat")
			if err != nil {
				continue // it has ended
			}
			_, state, _ := strings.Cut(string(stat), ") ")
			waits = waits && !strings.HasPrefix(state, "R")
			times, _ := os.ReadFile(task + "/schedstat")
			b.WriteString(task + " " + string(times))
		}
	}
	return b.String(), waits
}

// children are the processes that a process has started, and theirs.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				all = append(append(all, child), children(child)...)
			}
		}
	}
	return all
}

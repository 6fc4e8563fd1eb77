package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const stop, goOn, end = syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGKILL

// supported is an error where programs cannot be stopped and looked at.
func supported() error { return nil }

// group gives a program a process group of its own, which dies with the thread that starts it.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end} }

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

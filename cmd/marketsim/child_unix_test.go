//go:build unix

package main

import (
	"os/exec"
	"syscall"

	"github.com/marketsim/marketsim/internal/testkit"
)

// ownGroup puts a child into a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interrupt is Ctrl-C: a SIGINT to the whole process group.
func (c *child) interrupt() {
	c.t.Helper()
	testkit.Succeeds(c.t, syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT))
}

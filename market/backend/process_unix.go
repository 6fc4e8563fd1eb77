//go:build unix && !linux

package backend

import (
	"os/exec"
	"syscall"
)

// detach gives the child a process group of its own.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

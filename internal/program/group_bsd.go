//go:build unix && !linux

package program

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group of a program.
func killGroup(program *os.Process) {
	_ = syscall.Kill(-program.Pid, syscall.SIGKILL) // the group may have ended
}

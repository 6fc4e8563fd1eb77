package backend

import (
	"os/exec"
	"syscall"
)

// detach gives the child a process group of its own and lets it die with the thread that starts it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

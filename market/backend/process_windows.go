package backend

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// detach gives the child a process group of its own.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate kills: Windows has no gentler request for a process without a console.
func terminate(p *os.Process) error { return p.Kill() }

var errNoSignals = fmt.Errorf("this operating system cannot stop a process and continue it: %w", ErrUnavailable)

func pause(*os.Process) error { return errNoSignals }

func resume(*os.Process) error { return errNoSignals }

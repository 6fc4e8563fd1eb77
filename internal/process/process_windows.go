package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func detach(cmd *exec.Cmd, _ *os.File) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// markInUse makes the folder's mark. Windows removes no file that is open, and what is
// left of a killed process stays.
func markInUse(folder string) (*os.File, error) { return os.Create(filepath.Join(folder, inUse)) }

func removeUnused(string) {}

// terminate kills: Windows has no gentler request for a process without a console.
func terminate(p *os.Process) error { return p.Kill() }

var errNoSignals = fmt.Errorf("this operating system cannot stop a process and continue it: %w", ErrUnavailable)

func pause(*os.Process) error { return errNoSignals }

func resume(*os.Process) error { return errNoSignals }

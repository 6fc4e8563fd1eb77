//go:build unix

package backend

import (
	"os"
	"syscall"
)

// CanPause reports whether this operating system can stop a process and continue it, see [Process.Pause].
const CanPause = true

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

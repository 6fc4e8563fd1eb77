//go:build unix

package chaos

import (
	"fmt"
	"syscall"
)

// pause stops a process where it is, and resume lets it go on.
func pause(pid int) error { return signal(pid, syscall.SIGSTOP) }

func resume(pid int) error { return signal(pid, syscall.SIGCONT) }

func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("sending signal %s to the server: %w", s, err)
	}
	return nil
}

// pausable says whether processes can be stopped here.
const pausable = true

//go:build unix

package fault

import "syscall"

// canPause says that processes can be stopped and continued here.
const canPause = true

func pause(pid int) error  { return syscall.Kill(pid, syscall.SIGSTOP) }
func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

package process

import "syscall"

// attributes give a child a process group of its own and let it die with the
// thread that starts it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

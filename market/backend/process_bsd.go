//go:build unix && !linux

package backend

import "syscall"

// attributes give a child a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

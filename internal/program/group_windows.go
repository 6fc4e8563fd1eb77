package program

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C from a program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills a program and what it has started.
func killGroup(program *os.Process) {
	err := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(program.Pid)).Run()
	if err != nil {
		_ = program.Kill() // it may have ended
	}
}

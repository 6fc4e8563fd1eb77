//go:build !linux

package program

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// startGuarded starts a command without a guardian: this system has no process that becomes
// the parent of what others leave behind.
func startGuarded(cmd *exec.Cmd) (pid int, lifeline io.Closer, err error) {
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, io.NopCloser(nil), nil
}

// Pause does nothing here, nor does Resume: NewGuardian refuses to begin.
func (p *Child) Pause() {}

// Resume does nothing here.
func (p *Child) Resume() {}

// Kill kills the program, and what has not left its process group where there are any.
func (p *Child) Kill() {
	p.mu.Lock()
	released := p.released
	p.mu.Unlock()
	if !released {
		killGroup(p.cmd.Process)
	}
	p.release()
}

// Activity knows nothing here.
func (p *Child) Activity() (ran string, waiting bool) { return "", true }

// CPU knows nothing here.
func (p *Child) CPU() (used time.Duration, known bool) { return 0, false }

// unread is not known here.
func unread(*os.File) bool { return false }

// A Guardian cannot be had here.
type Guardian struct{ Mark string }

// NewGuardian is an error here.
func NewGuardian() (*Guardian, error) {
	return nil, errors.New("judging a program needs Linux, where its processes are stopped and looked at: " +
		"run marketsim in a container, with the program")
}

// Close does nothing here.
func (g *Guardian) Close() error { return nil }

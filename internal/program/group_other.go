//go:build !linux

package program

import (
	"errors"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// Pause does nothing here, nor do Resume and Kill: NewGuardian refuses to begin.
func (p *Child) Pause() {}

// Resume does nothing here.
func (p *Child) Resume() {}

// Kill does nothing here: see Close.
func (p *Child) Kill() {}

// Activity knows nothing here.
func (p *Child) Activity() (ran string, waiting bool) { return "", true }

// A Guardian cannot be had here.
type Guardian struct{ Mark string }

// NewGuardian is an error here.
func NewGuardian() (*Guardian, error) {
	return nil, errors.New("judging a program needs Linux, where its processes are stopped and looked at: " +
		"run marketsim in a container, with the program")
}

// Close does nothing here.
func (g *Guardian) Close() error { return nil }

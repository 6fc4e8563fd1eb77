//go:build !unix

package main

import (
	"os/exec"

	"github.com/marketsim/marketsim/internal/testkit"
)

// ownGroup does nothing where there are no process groups.
func ownGroup(*exec.Cmd) {}

// interrupt cannot be sent where there are no signals.
func (c *child) interrupt() {
	testkit.Require(c.t, "signals", "this system has no Ctrl-C for another process")
}

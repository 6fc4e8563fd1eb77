//go:build unix

package main

import (
	"path/filepath"
	"testing"
)

// TestOutsideInterrupt: Ctrl-C ends a row, which is audited, stored and removed; the exit code is 130.
func TestOutsideInterrupt(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := filepath.Join(t.TempDir(), "out")
	c := startChild(t, "run", "--strategy", "fine", "--mix", "2x2", "--duration", "10m", "--warmup", "100ms", "--redis", s.url(""),
		"--prefix", "marketsim:{outside}:", "--out", dir)
	s.trading(t, "marketsim:{outside}:")
	c.interrupt()
	c.end().exits(t, exitInterrupted).says(t, "interrupted")
	s.holds(t)
	marketsim(t, "report", dir).exits(t, exitFine).says(t, "INTERRUPTED")
}

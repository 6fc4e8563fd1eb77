//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

var serverAddr = regexp.MustCompile(`redis://(\S+)`)

// The password of a private server is in nothing that a run prints or writes,
// and nobody gets in without it.
func TestPrivatePasswordIsHidden(t *testing.T) {
	t.Parallel()
	path, password := spied(t)
	dir := t.TempDir()
	c := startChildIn(t, []string{"PATH=" + path}, "run", "--strategy", "fine,fine:set-px", "--mix", "1x1",
		"--hold", "5ms", "--duration", "900ms", "--warmup", "0s", "--backend", "local", "--out", filepath.Join(dir, "out"),
		"--history", filepath.Join(dir, "history"))
	addr := serverAddr.FindStringSubmatch(c.awaitStderr("backend: private ") + c.awaitStderr("\n"))[1]
	without := redisconn.Target{Network: "tcp", Addr: addr}
	if conn, err := redisconn.To(without).Dial(t.Context()); !errors.Is(err, redisconn.ErrAuth) {
		t.Errorf("without the password: %v, %v", conn, err)
	}
	hidden(t, password(), c.end().exits(t, exitFine), dir)
}

// spied is a PATH with a redis-server that shows the test the password that the
// program gave it.
func spied(t *testing.T) (path string, password func() string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		testkit.Require(t, "redis", err.Error())
	}
	path = t.TempDir()
	told := filepath.Join(path, "told")
	script := fmt.Sprintf("#!/bin/sh\n"+
		"read -r a; read -r b; printf '%%s\\n' \"$a\" \"$b\" >%[1]q\n"+
		"exec %[2]q \"$@\" <%[1]q\n", told, program)
	testkit.Succeeds(t, os.WriteFile(filepath.Join(path, "redis-server"), []byte(script), 0o700))
	return path, func() string { return strings.Split(read(t, told), `"`)[1] }
}

// privateServer is the server that a child has started for itself.
func privateServer(t *testing.T, c *child, password string) external {
	t.Helper()
	c.awaitStderr("\n")
	found := serverAddr.FindStringSubmatch(c.awaitStderr("backend: private "))
	if found == nil {
		t.Fatalf("the child names no server:\n%s", c.stderr.String())
	}
	target := redisconn.Target{Network: "tcp", Addr: strings.TrimSpace(found[1]), Password: password}
	s := backend.NewServer(backend.OriginURL, target, "", nil)
	return external{s, testkit.Dial(t, s)}
}

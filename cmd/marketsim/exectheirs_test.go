package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
)

// TestExecOnTheUsersServer: a program buys on a server of the user's, whose password it has
// from its environment. Nothing of it stays there but what was there before, and the command
// that is stored runs again.
func TestExecOnTheUsersServer(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	testkit.Succeeds(t, s.conn.Set(t.Context(), "theirs", "kept", 0).Err())
	testkit.Succeeds(t, s.conn.ConfigSet(t.Context(), "requirepass", secret).Err())

	// The first process leaves a key of its own, of which nobody knows.
	file := filepath.Join(t.TempDir(), "program.sh")
	leaves := `redis-cli -u "$REDIS_URL" --no-auth-warning set "${KEY_PREFIX}[own" 1 >&2; exec env ` +
		childEnv + `=1 ` + os.Args[0] + " adapter watch"
	testkit.Succeeds(t, os.WriteFile(file, []byte(leaves), 0o600))
	dir, o := whereAllBought(t, "exec:mine", "--exec", "mine=/bin/sh "+file, "--mix", "1x1",
		"--redis", s.url(":"+secret)+"/0")

	o.says(t, "audit ok")
	hidden(t, secret, o, dir)
	s.holds(t, "theirs")
	command := parse(t, read(t, filepath.Join(dir, runFile))).Manifest.Command
	if !strings.Contains(command, "/bin/sh "+file) {
		t.Errorf("the command is %s, want the whole path of %s in it", command, file)
	}
}

// TestExecHangs: a program that hangs while it is measured ends its row with what it was
// asked, and has no figures. It is waited for as long as a program may take to answer.
func TestExecHangs(t *testing.T) {
	if !testkit.Long() {
		t.Skip("it waits 10 s for an answer: MARKETSIM_LONG=all has it run")
	}
	t.Parallel()
	testkit.Local(t)
	// Its rehearsal trades the first few items only.
	hangs := script(t, `while read -r line; do `+
		`case "$line" in "buy "[3-9][0-9]" "*) sleep 60;; esac; echo "$line"; done | env `+
		childEnv+`=1 `+os.Args[0]+" adapter watch")
	marketsim(t, short("run", "exec:mine", "--exec", hangs, "--mix", "1x1")...).exits(t, exitEnvironment).
		says(t, "row exec:mine 1x1: ", "it was told \"", "and has said nothing for 10s", "No row was measured").
		silent(t, "purchases/s")
}

package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestExecUsage: what cannot be measured of a program is refused before anything starts.
func TestExecUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--exec py", "want NAME=COMMAND"},
		{"--exec py=", "want NAME=COMMAND"},
		{"--exec p:y=true", "want NAME=COMMAND"},
		{"--exec py=true --exec py=false", "each NAME once"},
		{"--exec other=true", `unknown strategy "exec"`},
		{"--exec py=true --hold 1ms", "--hold: it cannot hold the programs of exec:py"},
		{"--exec py=true --rtt 1ms",
			"--rtt: it cannot delay the programs of exec:py: they connect to the server directly"},
		{"--exec py=true --mix 11x10",
			"--mix: 11x10: each worker of exec:py is a process: at most 20 in all"},
	} {
		args := append([]string{"run", "--strategy", "exec:py"}, strings.Fields(c.args)...)
		marketsim(t, args...).exits(t, exitUsage).says(t, c.says)
	}

	// A name that is refused is shown with its command, and without what is secret in that.
	marketsim(t, "run", "exec:py", "--exec", "p:y=prog --token Kept4Myself").
		exits(t, exitUsage).says(t, "p:y=prog --token").silent(t, "Kept4Myself")
}

// script is a shell script that reads lines, as a strategy of --exec.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program.sh")
	testkit.Succeeds(t, os.WriteFile(file, []byte(text), 0o600))
	return "mine=/bin/sh " + file
}

// TestExecOfBadPrograms: a liar is found by the audit, and who breaks the protocol
// is shown with its last words.
func TestExecOfBadPrograms(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	const listens = "while read -r word more; do "
	for name, c := range map[string]struct {
		script string
		code   int
		says   []string
	}{
		"liar": {listens + `[ $word = buy ] && echo bought || echo listed; done`, exitViolation,
			[]string{"one client alone breaks the market: [item 1"}},
		"ends": {"echo why >&2", exitEnvironment,
			[]string{`was told "buy 0 1 2 1", and has ended`, "last lines are\n\twhy"}},
		"speaks another language": {listens + "echo certainly; done", exitEnvironment,
			[]string{`said "certainly", not "bought gone price funds busy error"`}},
		"does not know": {listens + `[ $word = buy ] && echo gone || { echo error 1; sleep 9; }; done`,
			exitEnvironment,
			[]string{`told "list 1 1 `, `said "error 1": it is not known what it has done`}},
	} {
		t.Run(name, func(t *testing.T) {
			o := marketsim(t, short("run", "--strategy", "exec:mine",
				"--exec", script(t, c.script), "--mix", "1x1")...)
			o.exits(t, c.code).says(t, c.says...)
		})
	}
}

// executed is the row of a program, which needs what its interpreter is asked to import.
func executed(t *testing.T, needs []string, command ...string) result.Row {
	t.Helper()
	t.Parallel()
	testkit.Local(t)
	if err := exec.Command(needs[0], needs[1:]...).Run(); err != nil {
		testkit.Require(t, "clients", strings.Join(needs, " ")+": "+err.Error())
	}

	dir, o := whereAllBought(t, "--strategy", "exec:mine",
		"--exec", "mine="+strings.Join(command, " "), "--mix", "1x1")
	o.says(t, "audit ok", "pipe: one process of exec:mine, alone, answers ")
	hidden(t, secret, o, dir)

	res := parse(t, read(t, filepath.Join(dir, runFile)))
	want := "--exec 'mine=" + command[0] + " " + command[1]
	if !strings.Contains(res.Manifest.Command, want) {
		t.Errorf("the manifest has %q, want %q", res.Manifest.Command, want)
	}

	row := res.Rows[0]
	if row.Bought == 0 || row.Listed == 0 || !row.Audit.OK {
		t.Errorf("%d bought, %d listed: %+v", row.Bought, row.Listed, row.Audit)
	}
	return row
}

// TestExec: programs are rows, in which what cannot be seen of them is empty.
func TestExec(t *testing.T) {
	t.Parallel()
	adapters := testkit.Must(filepath.Abs("../../verify/judge/adapters/purchase"))(t)

	t.Run("python", func(t *testing.T) {
		py := executed(t, []string{"/usr/bin/python3", "-c", "import redis"}, "/usr/bin/python3",
			filepath.Join(adapters, "python.py"), "redis://:"+secret+"@localhost", "--password", secret)
		for _, name := range []string{
			"round_trips_per_purchase", "commands_per_second", "retries", "polls",
			"lock_wait_ms_mean", "background_commands_per_second",
		} {
			if n := runs.MetricByName(name).Of(&py); !math.IsNaN(n) {
				t.Errorf("%s of a program is %v, and cannot be known", name, n)
			}
		}

		for _, name := range []string{"client_us", "others_cpu"} {
			if n := runs.MetricByName(name).Of(&py); runtime.GOOS == "linux" && math.IsNaN(n) {
				t.Errorf("%s of a program is not known", name)
			}
		}
	})

	t.Run("adapter", func(t *testing.T) {
		executed(t, []string{"env", "true"}, "env", childEnv+"=1", os.Args[0], "adapter", "watch")
	})

	t.Run("node", func(t *testing.T) {
		executed(t, []string{"node", "-e", "require('redis')"},
			"node", filepath.Join(adapters, "node.js"))
	})
}

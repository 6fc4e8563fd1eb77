//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
)

// longRuns are commands that take longer than any test waits before it interrupts them.
// Those with locks that need other servers ask for all that this machine has.
var longRuns = []string{
	"faults --out", // the whole table: a part of it ends too soon where the slow servers are missing
	"run --strategy watch,fine:redlock,fine:zookeeper,fine:etcd:timeout=1s --mix 2x2 --duration 10m --backend local --out",
	"reproduce --duration 10m --backend local --out",
}

// TestInterruptedAtRandom interrupts commands at moments drawn from a seed: what was
// found is stored, in faults every cell is found or marked, and nothing stays.
// MARKETSIM_INTERRUPTS says how often, MARKETSIM_SEED with which seed.
func TestInterruptedAtRandom(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	times, seed := uint64(len(longRuns)), uint64(time.Now().UnixNano())
	for name, number := range map[string]*uint64{
		"MARKETSIM_INTERRUPTS": &times, "MARKETSIM_SEED": &seed,
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*number = n
		}
	}
	t.Logf("seed %d", seed)

	draw := rand.New(rand.NewPCG(seed, 0))
	for n := range times {
		after := time.Duration(draw.Int64N(int64(3 * time.Second)))
		if draw.IntN(3) == 0 {
			after /= 40 // while the program and its first servers start
		}

		args := strings.Fields(installed(longRuns[n%uint64(len(longRuns))]))
		twice := draw.IntN(3) == 0
		t.Run(fmt.Sprintf("%d/%s after %s, twice: %v", n+1, args[0], after, twice),
			func(t *testing.T) { interruptAfter(t, args, after, twice) })
	}
}

// installed leaves the locks of servers out of a command that this machine does not have.
func installed(command string) string {
	finders := map[string]func() (string, error){
		"zookeeper": servers.FindZooKeeper,
		"etcd":      servers.FindEtcd,
	}
	for name, find := range finders {
		if _, err := find(); err != nil && !testkit.Required(name) {
			command = regexp.MustCompile(`,fine:`+name+`[^, ]*`).ReplaceAllString(command, "")
		}
	}
	return command
}

// interruptAfter interrupts a command whose last argument will be a folder, and looks at
// what is left. Who interrupts it twice leaves at once, perhaps without a result.
func interruptAfter(t *testing.T, args []string, after time.Duration, twice bool) {
	dir, temporary := t.TempDir(), t.TempDir()
	c := startChildIn(t, []string{"TMPDIR=" + temporary}, append(args, dir)...)
	time.Sleep(after)
	// in the background of a shell, SIGINT is ignored until the program asks for it
	if c.stderr.String() == "" {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
	} else {
		c.interrupt()
	}
	if twice {
		// It may have ended; a second SIGINT may be taken for the first.
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
	}

	o := c.end()
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if pids := withEnvironment(t, "TMPDIR="+temporary); len(pids) != 0 {
		t.Errorf("the processes %v are left", pids)
	}

	if o.code == -1 && o.stderr == "" {
		t.Log("it was interrupted before it listened to signals")
		return
	}
	o.exits(t, exitInterrupted)
	if twice {
		return
	}

	if args[0] != "faults" {
		if path := filepath.Join(dir, runFile); exists(path) &&
			parse(t, read(t, path)).Status != stored.Interrupted {
			t.Errorf("it stored %s", read(t, path))
		}
		return
	}

	res := parseFaults(t, read(t, filepath.Join(dir, faultsFile)))
	cells := len(res.Scenarios) * len(res.Subjects)
	if res.Status != stored.Interrupted || len(res.Findings) != cells || res.Found() == cells {
		t.Errorf("%s with %d findings, %d of them found", res.Status, len(res.Findings), res.Found())
	}
	t.Logf("%d of %d found, %s to stop",
		res.Found(), len(res.Findings), o.took.Round(time.Millisecond))
}

// withEnvironment finds the processes that have a variable in their
// environment, as children inherit it.
func withEnvironment(t *testing.T, variable string) (pids []string) {
	if runtime.GOOS != "linux" {
		return nil
	}
	paths := testkit.Must(filepath.Glob("/proc/[0-9]*/environ"))(t)
	for _, path := range paths {
		// Processes of others cannot be read, and are not ours.
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), variable+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// TestInterrupted: a run that Ctrl-C ends audits and stores the row under way, and leaves
// no key.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := t.TempDir()
	c := startChild(t, "run", "--strategy", "watch,fine", "--mix", "2x2", "--duration", "10m",
		"--warmup", "0s", "--redis", s.url(""), "--prefix", "mine:", "--out", dir, "--format", "json")

	s.trading(t, "mine:")
	c.interrupt()
	o := c.end().exits(t, exitInterrupted).says(t,
		"finishing what is in flight; interrupt again to leave at once", "stored in "+dir,
		"marketsim: interrupted: 0 of 2 rows complete; the report holds what was measured")

	s.holds(t)

	for _, text := range []string{o.stdout, read(t, filepath.Join(dir, runFile))} {
		res := parse(t, text)
		if res.Status != stored.Interrupted || len(res.Rows) != 1 {
			t.Fatalf("the result is %s with %d rows, want interrupted with 1", res.Status, len(res.Rows))
		}
		r := res.Rows[0]
		audited := r.Audit.Done && r.Audit.OK
		if r.Status != stored.Interrupted || !audited || r.Listed+r.Bought == 0 {
			t.Errorf("the row is not a measured and audited one: %+v", r)
		}
	}

	marketsim(t, "report", dir).exits(t, exitFine).says(t, "interrupted")
}

// Ctrl-C ends the reader of the program's output, too, as it ends tee; or the reader
// lives on and reads nothing, as less does, and the pipe is full, so that each write
// waits. The market is removed all the same.
func TestInterruptedInAPipe(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, read, write *os.File){
		"ended": func(_ *testing.T, read, _ *os.File) { read.Close() }, "full": fill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newExternal(t)
			read, write, err := os.Pipe()
			testkit.Succeeds(t, err)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "run", "--strategy", "watch", "--mix", "2x2",
				"--duration", "10m", "--warmup", "0s", "--redis", s.url(""), "--prefix", "mine:")
			cmd.Env = append(os.Environ(), childEnv+"=1")
			cmd.Stdout, cmd.Stderr = write, write
			ownGroup(cmd)
			testkit.Succeeds(t, cmd.Start())

			s.trading(t, "mine:")
			stop(t, read, write)
			_ = cmd.Process.Signal(syscall.SIGINT)
			began := time.Now()
			_ = cmd.Wait() // its last words, too, go where nobody reads them
			t.Logf("it has ended after %s: %s", time.Since(began).Round(time.Millisecond), cmd.ProcessState)

			if ctx.Err() != nil {
				t.Error("it had to be killed")
			}

			s.holds(t)
			read.Close() // which ends who has filled it
		})
	}
}

// fill writes to a pipe for as long as it has a reader, and returns when it is full.
func fill(t *testing.T, _, pipe *os.File) {
	go func() {
		var err error
		for err == nil {
			_, err = pipe.Write([]byte{'.'})
		}
	}()

	eventually(t, "a full pipe", func() bool {
		takesMore := []unix.PollFd{{Fd: int32(pipe.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(takesMore, 0)
		return n == 0 && err == nil
	})
}

// A program that was stopped with its clients for longer than leases last accuses no lock.
func TestStoppedFaultsAccuseNobody(t *testing.T) {
	if !testkit.Long() {
		t.Skip("it stands still for five seconds again and again: set MARKETSIM_LONG=all")
	}
	t.Parallel()
	testkit.Local(t) // the child starts one of its own, or there is nothing to test

	random := rand.New(rand.NewPCG(1, 2))
	c := startChild(t, "faults", "--scenario", "expired-race,stuck-goroutine",
		"--lock", "fenced,set-px,redisson", "--format", "json")
	c.awaitStderr("private ")
	for range 4 {
		stops(t, -c.cmd.Process.Pid,
			time.Duration(100+random.IntN(900))*time.Millisecond, 1200*time.Millisecond)
	}

	o := c.end()
	if o.code == exitViolation || strings.Contains(o.stdout, "promises") {
		t.Errorf("exit code %d\n%s\n%s", o.code, o.stdout, o.stderr)
	}

	table := testkit.Must(findings.ReadFaultTable(strings.NewReader(o.stdout)))(t)
	for _, f := range table.Findings {
		if f.Verdict == verify.Stopped {
			t.Errorf("%s of %s was not played: %s", f.Scenario, f.Subject, f.Why)
		}
	}
}

// stops stops processes after a while, and for a while.
func stops(t *testing.T, pid int, after, length time.Duration) {
	t.Helper()
	time.Sleep(after)
	err := syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(length)
	testkit.Succeeds(t, errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)))
}

// nohup has its program ignore the hang-up of the terminal: it goes on.
func TestHangUpUnderNohup(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	const script = `trap '' HUP; exec "$0" "$@"`
	cmd := exec.Command("/bin/sh", "-c", script, os.Args[0],
		"run", "--strategy", "watch", "--mix", "1x1",
		"--hold", "5ms", "--duration", "2s", "--warmup", "0s", "--redis", s.url(""), "--prefix", "mine:")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	testkit.Succeeds(t, cmd.Start())

	s.trading(t, "mine:")
	testkit.Succeeds(t, cmd.Process.Signal(syscall.SIGHUP))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	s.holds(t)
}

// Whoever stops a run early has its complete rounds, and no verdict.
func TestInterruptedRounds(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "reproduce", "--trials", "15", "--duration", "10ms", "--warmup", "0s",
		"--redis", s.url(""), "--format", "json")

	// Each round has nine rows: two of the 15 are over.
	c.awaitStderr("\n18/135 ")
	c.interrupt()

	res := parse(t, c.end().exits(t, exitInterrupted).stdout)
	if n := len(res.CompleteRounds()); res.Status != stored.Interrupted || n < 2 || n > 14 {
		t.Errorf("%s with %d rounds", res.Status, n)
	}

	for _, c := range res.Claims {
		if c.Verdict != runs.NotDecided && c.Verdict != runs.NotJudged || c.Low != nil {
			t.Errorf("claim %d: %s: %s", c.ID, c.Verdict, c.Measured)
		}
	}

	s.holds(t)
}

// An operation that waits for a lock that somebody else holds keeps a run from
// ending at the first Ctrl-C.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // the child starts one of its own, or there is nothing to test
	programs, password := spied(t)
	c := startChildIn(t, []string{"PATH=" + programs}, "run", "--strategy", "coarse:timeout=10m",
		"--mix", "1x1", "--duration", "10m", "--warmup", "0s", "--backend", "local", "--prefix", "mine:")
	c.awaitStderr("backend: private ")

	private := privateServer(t, c, password())
	private.trading(t, "mine:")
	private.block(t, "mine:lock:market")

	c.interrupt()
	c.awaitStderr("interrupt again to leave at once")
	c.interrupt()
	c.end().exits(t, exitInterrupted).says(t, "left at once")

	eventually(t, "the end of the private server", func() bool {
		conn, err := net.Dial("tcp", private.Target.Addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// A first Ctrl-C waits for the operations in flight, and no longer.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "run", "--strategy", "coarse:timeout=1s", "--mix", "1x1", "--duration", "10m",
		"--warmup", "0s", "--redis", s.url(""), "--prefix", "mine:", "--format", "json")

	s.trading(t, "mine:")
	s.block(t, "mine:lock:market")
	c.interrupt()

	o := c.end().exits(t, exitInterrupted)
	res := parse(t, o.stdout)
	if row := res.Rows[0]; row.Refused["contended"] == 0 || row.Unknown != 0 || !row.Audit.OK {
		t.Errorf("want operations given up as contended, and none unknown: %+v", row)
	}
	s.holds(t)
}

var setnxCalls = regexp.MustCompile(`cmdstat_setnx:calls=(\d+)`)

// block takes a lock away from everybody and waits until somebody waits for it.
func (e external) block(t testing.TB, key string) {
	t.Helper()
	e.conn.Set(t.Context(), key, "held by somebody else", 0)
	calls := func() int {
		found := setnxCalls.FindStringSubmatch(e.conn.Info(t.Context(), "commandstats").Val())
		return testkit.Must(strconv.Atoi(found[1]))(t)
	}
	before := calls()
	eventually(t, "somebody who waits for "+key, func() bool { return calls() > before+10 })
}

// Faults are interrupted while clients are held and stopped. A complete result
// in the folder stays.
func TestInterruptedFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	complete := read(t, filepath.Join(storedFaults, faultsFile))
	testkit.Succeeds(t, os.WriteFile(filepath.Join(dir, faultsFile), []byte(complete), 0o666))

	c := startChild(t, "faults", "--scenario", "crash-half-taken,pause", "--lock",
		"set-px:poll=2ms,set-px,setnx,fenced,queue", "--out", dir, "--force")
	c.awaitStderr("\n1/2 crash-half-taken") // and most of the others wait for a TTL
	c.interrupt()
	c.end().exits(t, exitInterrupted).says(t,
		"marketsim: interrupted: ", " of 10 findings; the report holds what was found", "stored in "+dir)

	marketsim(t, "report", filepath.Join(dir, "incomplete-"+faultsFile)).exits(t, exitFine).
		says(t, "interrupted")
	if read(t, filepath.Join(dir, faultsFile)) != complete {
		t.Error("the complete result was replaced")
	}
}

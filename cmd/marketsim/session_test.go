package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// begin starts a command in this process, whose outcome comes later.
func begin(t testing.TB, args ...string) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() { done <- marketsimUntil(context.Background(), args...) }()
	return done
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := t.TempDir()
	running := begin(t, "run", "--strategy", "fine,watch", "--mix", "2x2", "--duration", "10m", "--warmup", "0s",
		"--redis", s.url(""), "--prefix", "mine:", "--out", dir)
	s.trading(t, "mine:")
	killed := time.Now()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	o := <-running
	if took := time.Since(killed); took > patience {
		t.Errorf("the death of the server took %s to be told", took)
	}
	o.exits(t, exitEnvironment).says(t, "INCOMPLETE", "incomplete: 0 of 2 rows complete; the report holds what was measured",
		"could not be audited", "connection refused", "clean --prefix mine: --redis "+s.url(""), "stored in "+dir)
	res := parseFile(t, filepath.Join(dir, runFile))
	if res.Status != result.Incomplete || len(res.Rows) != 1 || res.Rows[0].Status != result.Incomplete {
		t.Fatalf("the result is not one incomplete row: %s %+v", res.Status, res.Rows)
	}
	if r := res.Rows[0]; r.Listed == 0 || r.Audit.Done {
		t.Errorf("want what was measured, without an audit: %+v", r)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	// A lock cannot be given back with MULTI when memory is full, so whoever waits for it has to time out.
	for _, strategy := range []string{"watch", "coarse:timeout=500ms", "fine:timeout=500ms"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel() // on a server of its own: one that was full frees its memory in the background
			s := newExternal(t, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
			o := marketsim(t, "run", "--strategy", strategy, "--mix", "3x1", "--duration", "1m", "--warmup", "0s",
				"--redis", s.url(""), "--prefix", "mine:", "--json", "-")
			o.exits(t, exitEnvironment).says(t, "OOM command not allowed")
			res := parse(t, o.stdout)
			if res.Status != result.Incomplete || len(res.Rows) != 1 {
				t.Fatalf("the result is not one incomplete row: %s %+v", res.Status, res.Rows)
			}
			if r := res.Rows[0]; r.Listed == 0 || !r.Audit.Done || !r.Audit.OK {
				t.Errorf("want what was measured, audited: %+v", r)
			}
			s.holds(t)
		})
	}
}

func TestUnsafeIsCaught(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	o := marketsim(t, "run", "--strategy", "unsafe,fine", "--duration", "1s", "--warmup", "0s", "--redis", s.url(""))
	o.exits(t, exitViolation).says(t, "AUDIT FAILED in 1 of 2 rows", "marketsim: violation: the audit of unsafe 5x5 found",
		"was sold twice", "2/2 fine 5x5")
	if !regexp.MustCompile(`found [1-9]\d* items? and [1-9]\d* accounts? wrong`).MatchString(o.stderr) {
		t.Errorf("not both items and accounts are wrong:\n%s", o.stderr)
	}
	s.holds(t)
}

// Money that cannot be made is not a reason to fail: the row ends when it is spent.
func TestBuyersGoBroke(t *testing.T) {
	t.Parallel()
	marketsim(t, "run", "--strategy", "fine-wallet", "--mix", "2x2", "--funds", "300", "--wallets", "1", "--duration", "10m",
		"--warmup", "0s", "--backend", "embedded").exits(t, exitFine).
		says(t, "every buyer ran out of coins", "all buyers share 1")
}

// Who interrupts before the load starts gets no result, and no server is left waiting for.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newExternal(t)
	clean := []string{"clean", "--prefix", "mine:", "--redis", s.url("")}
	if o := marketsimUntil(ctx, clean...).exits(t, exitInterrupted).says(t, "marketsim: interrupted ("); o.stdout != "" {
		t.Errorf("stdout holds %q", o.stdout)
	}
	for _, backend := range [][]string{{"--redis", s.url("")}, {"--backend", "embedded"}} {
		dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old.json")
		if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, recorded := filepath.Join(dir, "out"), filepath.Join(dir, "history")
		args := append([]string{"run"}, backend...)
		args = append(args, "--strategy", "fine", "--out", out, "--json", old, "--history", recorded)
		marketsimUntil(ctx, args...).exits(t, exitInterrupted).says(t,
			"marketsim: interrupted: 0 of 1 row complete", "INTERRUPTED by the user", "No row was measured.")
		if res := parseFile(t, filepath.Join(out, runFile)); res.Status != result.Interrupted || len(res.Rows) != 0 {
			t.Errorf("stored %s with %d rows", res.Status, len(res.Rows))
		}
		if read(t, old) != "old" {
			t.Error("a result was replaced by one without a row")
		}
		if exists(recorded) {
			t.Error("an empty folder is left for a history")
		}
	}
	s.holds(t)
}

// TestFolderOfAFailure: a run that does not begin leaves no folder, and keeps the user's.
func TestFolderOfAFailure(t *testing.T) {
	t.Parallel()
	there, made := t.TempDir(), filepath.Join(t.TempDir(), "out")
	marketsim(t, "run", "--strategy", "fine", "--redis", "redis://"+refusedAddr(t), "--out", made, "--history", there).
		exits(t, exitEnvironment)
	if exists(made) || !exists(there) {
		t.Errorf("the folder that was made is there: %t; the user's: %t", exists(made), exists(there))
	}
}

func TestDescribeMachine(t *testing.T) {
	var m result.Manifest
	describeMachine(&m)
	if m.Go != runtime.Version() || m.OS != runtime.GOOS+"/"+runtime.GOARCH || m.CPUs < 1 {
		t.Errorf("%+v", m)
	}
	if runtime.GOOS == "linux" && m.Kernel == "" {
		t.Error("Linux without a kernel")
	}
}

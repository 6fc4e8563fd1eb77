package main

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
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
	running := begin(t, "run", "--strategy", "fine,watch", "--mix", "2x2", "--duration", "1m", "--warmup", "0s",
		"--redis", s.url(""), "--prefix", "mine:", "--out", dir)
	s.trading(t, "mine:")
	killed := time.Now()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	o := <-running
	if took := time.Since(killed); took > 10*time.Second {
		t.Errorf("the death of the server took %s to be told", took)
	}
	o.exits(t, exitEnvironment).says(t, "INCOMPLETE", "incomplete: 0 of 2 rows complete; the report holds what was measured",
		"could not be audited", "connection refused", "clean --prefix mine:", "stored in "+dir)
	res := parseFile(t, filepath.Join(dir, resultFile))
	if res.Status != bench.Incomplete || len(res.Rows) != 1 || res.Rows[0].Status != bench.Incomplete {
		t.Fatalf("the result is not one incomplete row: %s %+v", res.Status, res.Rows)
	}
	if r := res.Rows[0]; r.Listed == 0 || r.Audit.Done {
		t.Errorf("want what was measured, without an audit: %+v", r)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := newExternal(t, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
	// A lock cannot be given back with MULTI when memory is full, so whoever waits for it has to time out.
	for _, strategy := range []string{"watch", "coarse:timeout=500ms", "fine:timeout=500ms"} {
		t.Run(strategy, func(t *testing.T) {
			o := marketsim(t, "run", "--strategy", strategy, "--mix", "3x1", "--duration", "1m", "--warmup", "0s",
				"--redis", s.url(""), "--prefix", "mine:", "--json", "-")
			o.exits(t, exitEnvironment).says(t, "OOM command not allowed")
			res := parse(t, o.stdout)
			if res.Status != bench.Incomplete || len(res.Rows) != 1 {
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
	marketsim(t, "run", "--strategy", "fine-wallet", "--mix", "2x2", "--funds", "300", "--wallets", "1", "--duration", "30s",
		"--warmup", "0s", "--backend", "embedded").exits(t, exitFine).
		says(t, "every buyer ran out of coins", "all buyers share 1 account")
}

// Who interrupts before the load starts gets no result, and no server is left waiting for.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newExternal(t)
	for _, args := range [][]string{
		{"run", "--strategy", "fine", "--redis", s.url("")},
		{"run", "--strategy", "fine", "--backend", "embedded"},
		{"clean", "--prefix", "mine:", "--redis", s.url("")},
	} {
		if o := marketsimUntil(ctx, args...).exits(t, exitInterrupted).says(t, "marketsim: interrupted ("); o.stdout != "" {
			t.Errorf("stdout holds %q", o.stdout)
		}
	}
	s.holds(t)
}

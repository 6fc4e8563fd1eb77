package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestChaosUsageErrors(t *testing.T) {
	for says, args := range map[string][]string{
		"--redis does not go with it":               {"--redis", "redis://localhost"},
		"--backend does not go with it":             {"--backend", "embedded"},
		"--keep does not go with it":                {"--keep"},
		"--warmup does not go with it":              {"--warmup", "1s"},
		"--browsers does not go with it":            {"--browsers", "1"},
		"--duration 0s: must be positive":           {"--duration", "0s"},
		"starts a private redis-server: --password": {"--password-file", "/dev/null"},
	} {
		args = append([]string{"run", "--strategy", "coarse:rw-safe", "--chaos"}, args...)
		marketsim(t, args...).exits(t, exitUsage).says(t, says)
	}
}

func TestChaosWithAServerInTheEnvironment(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://"+refusedAddr(t))
	args := []string{"run", "--strategy", "watch", "--chaos", "--duration", "10ms"}
	marketsim(t, args...).exits(t, exitUsage).says(t, "REDIS_URL does not go with it", "--backend local overrides it")
	backendtest.Local(t) // or there is nothing to start
	marketsim(t, append(args, "--backend", "local")...).exits(t, exitFine)
}

func TestChaosPlan(t *testing.T) {
	args := []string{"run", "--strategy", "watch,fine:set-px:ttl=5s", "--mix", "1x1,5x5", "--chaos-plan", "--duration", "1m"}
	plan := func(more ...string) string {
		o := marketsim(t, append(args, more...)...).exits(t, exitFine)
		if o.stderr != "" {
			t.Errorf("stderr holds %q", o.stderr)
		}
		return o.stdout
	}
	seven := plan("--seed", "7")
	if again := plan("--seed", "7"); again != seven {
		t.Errorf("one seed has two plans:\n%s\n%s", seven, again)
	}
	drawn, another := plan(), plan()
	if plan("--seed", "8") == seven || drawn == another {
		t.Error("two seeds have one plan")
	}
	for text, times := range map[string]int{"watch, seed 7, 1m0s\n": 1, "fine:set-px:ttl=5s, seed 7, 1m0s\n": 1} {
		if strings.Count(seven, text) != times {
			t.Errorf("%q is not there %d times:\n%s", text, times, seven)
		}
	}
}

func TestChaos(t *testing.T) {
	t.Parallel()
	backendtest.Local(t) // the run starts one of its own, or there is nothing to test
	dir := t.TempDir()
	o := marketsim(t, "run", "--strategy", "watch", "--mix", "2x2", "--chaos", "--chaos-verbose", "--duration", "3s", "--out", dir).
		exits(t, exitFine).
		says(t, "chaos: seed ", "the same faults again: ", " --seed ", "round 1, ", " s  ", "audit ok", "survived ", "workers connected anew", "watch 2x2: LINEARIZABLE")
	res := parseFile(t, filepath.Join(dir, resultFile))
	row := res.Rows[0]
	if res.Manifest.Seed == bench.DefaultSeed || row.Chaos == nil || row.Chaos.Seed != res.Manifest.Seed || row.Chaos.Struck() == 0 {
		t.Errorf("seed %d, chaos %+v", res.Manifest.Seed, row.Chaos)
	}
	if res.Manifest.ServerConfig["appendfsync"] != "always" || res.Manifest.ServerConfig["appendonly"] != "yes" {
		t.Errorf("the server forgets: %v", res.Manifest.ServerConfig)
	}
	redrawn(t, dir, o.stdout)
}

// TestChaosCatchesUnsafe: at the first quiet point, whatever strikes.
func TestChaosCatchesUnsafe(t *testing.T) {
	backendtest.Local(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o := marketsim(t, "run", "--strategy", "unsafe", "--mix", "2x8", "--chaos", "--duration", "15s", "--seed", "1").
		exits(t, exitViolation).says(t, "AUDIT FAILED", "violation: the audit of unsafe 2x8 found", "struck by ").silent(t, "round 2, ")
	o.says(t, "unsafe 2x8: VIOLATED", "the history is kept in "+dir, "violation: the history of unsafe 2x8: items: ")
	kept, _ := filepath.Glob(filepath.Join(dir, "marketsim-*", "row"))
	if len(kept) != 1 {
		t.Fatalf("kept are %q", kept)
	}
	if _, err := history.Read(kept[0]); err != nil {
		t.Error(err)
	}
	if n := strings.Count(o.stderr, "--seed 1"); n != 2 { // at the start and at the end
		t.Errorf("what repeats it is told %d times:\n%s", n, o.stderr)
	}
}

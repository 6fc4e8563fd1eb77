package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
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
	testkit.Local(t) // or there is nothing to start
	marketsim(t, append(args, "--backend", "local")...).exits(t, exitFine)
}

func TestChaosPlan(t *testing.T) {
	args := []string{"run", "--strategy", "watch,fine:set-px:ttl=5s,fine:rw-hash:read-ttl=1.5s:write-ttl=2s,fine:redlock",
		"--mix", "1x1,5x5", "--chaos-plan", "--duration", "1m"}
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
	if plan("--seed", "8") == seven {
		t.Error("two seeds have one plan")
	}
	if plan() != plan("--seed", "1") { // which help names
		t.Error("the plan's default seed is not 1")
	}
	if one := planOf(t, seven, "fine:redlock"); !strings.Contains(one, "lock-kill of server ") {
		t.Errorf("no lock server is struck:\n%s", one)
	}
	if one := planOf(t, seven, "watch"); strings.Contains(one, "lock-") || strings.Contains(one, "at acquired") {
		t.Errorf("faults that cannot strike:\n%s", one)
	}
	pauses := regexp.MustCompile(`client-pause .* for (\S+)`).
		FindAllStringSubmatch(planOf(t, seven, "fine:rw-hash:read-ttl=1.5s:write-ttl=2s"), -1)
	if len(pauses) == 0 {
		t.Error("nobody is paused")
	}
	for _, p := range pauses {
		if length, err := time.ParseDuration(p[1]); err != nil || length <= 2*time.Second {
			t.Errorf("%q is not longer than the lease", p[0])
		}
	}
	own := plan("--redlock", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
	if strings.Contains(own, "lock-") {
		t.Errorf("the user's own servers are struck:\n%s", own)
	}
	for text, times := range map[string]int{
		"watch, seed 7, 1m0s\n": 1, "watch with one buyer, seed 7, 1m0s\n": 1, "fine:set-px:ttl=5s, seed 7, 1m0s\n": 1,
	} {
		if strings.Count(seven, text) != times {
			t.Errorf("%q is not there %d times:\n%s", text, times, seven)
		}
	}
}

// TestChaosPlanOfAProcess: half of the workers are paused whole, unless their process would need passwords of the
// user's, or there is only one buyer.
func TestChaosPlanOfAProcess(t *testing.T) {
	own := []string{"--redlock", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"}
	for _, c := range []struct {
		strategy string
		more     []string
		paused   bool
	}{
		{"watch", nil, true}, {"fine:zookeeper:ttl=1s", nil, true},
		{"fine:redlock:ttl=500ms", nil, true}, {"fine:redlock:ttl=500ms", own, false}, {"watch", own, true},
		{"watch", []string{"--mix", "5x1"}, false}, {"watch", []string{"--mix", "1x2"}, true},
	} {
		args := append([]string{"run", "--strategy", c.strategy, "--chaos-plan", "--duration", "1m", "--seed", "7"}, c.more...)
		o := marketsim(t, args...).exits(t, exitFine)
		if got := strings.Contains(o.stdout, "process-pause of half the workers"); got != (c.paused && backend.CanPause) {
			t.Errorf("%s %s: that it is paused whole is %t:\n%s", c.strategy, c.more, got, o.stdout)
		}
	}
}

// planOf is the part of a printed plan that is about a strategy.
func planOf(t *testing.T, plan, strategy string) string {
	t.Helper()
	_, after, found := strings.Cut(plan, strategy+", seed ")
	if !found {
		t.Fatalf("no plan of %s in:\n%s", strategy, plan)
	}
	part, _, _ := strings.Cut(after, ", seed ")
	return part
}

func TestChaos(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // the run starts one of its own, or there is nothing to test
	dir := t.TempDir()
	o := marketsim(t, "run", "--strategy", "watch", "--mix", "2x2", "--chaos", "--chaos-verbose", "--duration", "3s", "--out", dir).
		exits(t, exitFine).
		says(t, "chaos: seed ", "the same faults again: ", " --seed ", "round 1, ", " s  ", "audit ok", "anew", "watch 2x2: LINEARIZABLE",
			" coins ")
	res := parseFile(t, filepath.Join(dir, runFile))
	row := res.Rows[0]
	if c := row.Chaos; c.Market != result.MarketRight || c.HeldByTwo != nil || c.LeasesLost == nil || c.StaleRefused == nil {
		t.Errorf("it is told as %+v", c)
	}
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
	t.Parallel()
	testkit.Local(t)
	dir := t.TempDir()
	o := startChildIn(t, []string{"TMPDIR=" + dir}, "run", "--strategy", "unsafe", "--mix", "2x8", "--chaos",
		"--duration", "15s", "--seed", "1").end().exits(t, exitViolation).says(t, "AUDIT FAILED", "violation: the audit of unsafe 2x8 found", "struck by ").silent(t, "round 2, ")
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

// TestJudge: a history that was not judged, or not wholly, is kept and is an error; one that is in order is removed.
func TestJudge(t *testing.T) {
	fine := func(t *testing.T, dir string) { recorded(t, dir, 2) }
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		row   result.Row
		make  func(t *testing.T, dir string)
		exits int
		kept  bool
		says  string // the error
	}{
		{name: "in order", make: fine},
		{name: "in order, of a row that was interrupted", ctx: interrupted, make: fine},
		{name: "violated", make: func(t *testing.T, dir string) { recorded(t, dir, 2, 3) }, exits: exitViolation, kept: true, says: "items"},
		{name: "undecided", make: undecidable, exits: exitEnvironment, kept: true, says: "not decided in time: accounts"},
		{name: "undecided, and interrupted", ctx: interrupted, make: undecidable, exits: exitInterrupted, kept: true, says: "not decided in time"},
		{name: "damaged", make: func(t *testing.T, dir string) {
			fine(t, dir)
			if err := os.Truncate(filepath.Join(dir, "history.jsonl"), 100); err != nil {
				t.Fatal(err)
			}
		}, exits: exitEnvironment, kept: true, says: "history is damaged"},
		{name: "interrupted before anything was recorded", ctx: interrupted, row: result.Row{Status: result.Interrupted},
			make: func(*testing.T, string) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			var told strings.Builder
			d := &chaosDriver{stderr: &told}
			config := bench.Config{}
			if err := d.record(&config); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(filepath.Dir(config.History))
			c.make(t, config.History)
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			err := d.judge(c.ctx, config, &c.row, nil)
			if code := exitCode(err); code != c.exits || c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("exits %d, want %d with %q: %v", code, c.exits, c.says, err)
			}
			_, statErr := os.Stat(filepath.Dir(config.History))
			if kept := statErr == nil; kept != c.kept || kept != strings.Contains(told.String(), "the history is kept in "+config.History) {
				t.Errorf("kept %t, want %t, and told:\n%s", kept, c.kept, &told)
			}
		})
	}
}

// undecidable makes a history with more lost replies on one item than are tried.
func undecidable(t *testing.T, dir string) {
	recordedWith(t, dir, errors.New("EOF"), slices.Repeat([]market.UserID{2}, 12)...)
}

// TestLimit: Ctrl-C ends a check under way, and leaves some seconds to one of a row that it ended.
func TestLimit(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	under, cancel := limit(ctx)
	defer cancel()
	if under.Err() != nil {
		t.Error("the check ends before it begins")
	}
	interrupt()
	if under.Err() == nil {
		t.Error("an interrupted check goes on")
	}
	after, cancel := limit(ctx)
	defer cancel()
	if end, ok := after.Deadline(); after.Err() != nil || !ok || time.Until(end) > interruptedCheckTimeout {
		t.Errorf("after the interruption: %v, until %v", after.Err(), end)
	}
}

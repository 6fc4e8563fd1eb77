package main

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
)

// parse reads a result, and nothing but a result.
func parse(t testing.TB, text string) *runs.Run {
	t.Helper()
	res, err := runs.Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return res
}

// measured is the result that a command prints as JSON, and it prints nothing else.
func measured(t testing.TB, args ...string) *runs.Run {
	t.Helper()
	return parse(t, marketsim(t, append(args, "--format", "json")...).exits(t, exitFine).stdout)
}

func read(t testing.TB, path string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(path))(t))
}

// TestRun: what is measured is stored, in canonical form, and is drawn again byte for byte.
func TestRun(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		dir := t.TempDir()
		o := marketsim(t, short("run", "--strategy", "watch,coarse:setnx,fine:poll=2ms",
			"--mix", "1x1,2x1", "--seed", "7", "--backend", string(s.Name), "--out", dir)...).
			exits(t, exitFine).
			says(t, "backend: ", "\n1/6 (about ", "\n6/6 (about 0s left) fine:poll=2ms 2x1",
				"stored in "+dir)
		if strings.Contains(o.stdout, "backend: ") || strings.Contains(o.stderr, "Rows") {
			t.Errorf("progress and report are not apart:\nstdout:\n%s\nstderr:\n%s", o.stdout, o.stderr)
		}

		res := parse(t, read(t, filepath.Join(dir, runFile)))
		m := res.Manifest
		asked := m.Backend == string(s.Name) && m.Seed == 7 &&
			strings.Contains(m.Command, " run --strategy watch,") &&
			strings.Contains(m.Command, " --out "+filepath.Base(dir))
		machine := m.Go != "" && m.CPUs >= 1
		if res.Status != stored.Complete || !asked || !machine {
			t.Errorf("status %s, manifest %+v", res.Status, m)
		}

		if got := strings.Join(m.Config.Subjects(), " "); got != "watch coarse fine:poll=2ms" ||
			len(res.Rows) != 6 {
			t.Errorf("%d rows of the strategies %q", len(res.Rows), got)
		}
		for _, r := range res.Rows {
			if r.Status != stored.Complete || !r.Audit.OK {
				t.Errorf("%s: %+v", r.Name(), r)
			}
		}

		for format, want := range map[string]string{
			"text": o.stdout,
			"json": read(t, filepath.Join(dir, runFile)),
		} {
			got := marketsim(t, "report", dir, "--format", format).exits(t, exitFine).stdout
			if got != want {
				t.Errorf("report --format %s draws\n%s\nand the run\n%s", format, got, want)
			}
		}

		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("left in the folder: %v", left)
		}
	})
}

// TestOutReplacesNothing unless it is forced.
func TestOutReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded", "--out", dir)
	marketsim(t, args...).exits(t, exitFine)

	before := read(t, filepath.Join(dir, runFile))
	marketsim(t, args...).exits(t, exitUsage).
		says(t, "is there already", "--force").silent(t, "backend:")
	if read(t, filepath.Join(dir, runFile)) != before {
		t.Error("the result was replaced")
	}

	marketsim(t, append(args, "--force", "--seed", "9")...).exits(t, exitFine)
	if read(t, filepath.Join(dir, runFile)) == before {
		t.Error("the result was not replaced")
	}
}

// TestTwoStoreInOnePlace: of two commands that found a folder without a result, the
// later one does not say "stored".
func TestTwoStoreInOnePlace(t *testing.T) {
	first := output{format: asText, formats: runFormats, dir: t.TempDir(), file: runFile}
	second := first
	testkit.Succeeds(t, errors.Join(first.prepare(), second.prepare()))

	mine, other := &runs.Run{Schema: runs.Schema, Status: stored.Incomplete},
		&runs.Run{Status: stored.Interrupted}
	testkit.Succeeds(t, first.save(other))
	testkit.Succeeds(t, first.save(mine)) // after its next row

	var said strings.Builder
	err := second.finish(&program{stdout: io.Discard, stderr: &said}, other)
	if !errors.Is(err, fs.ErrExist) || said.Len() > 0 {
		t.Errorf("the later one: %v, %q", err, said.String())
	}

	text := read(t, filepath.Join(first.dir, runFile))
	if !strings.Contains(text, string(mine.Status)) {
		t.Errorf("the first one's result is gone: %s", text)
	}
}

// TestSilence: a rehearsal that takes more than two seconds says what it waits for.
func TestSilence(t *testing.T) {
	t.Parallel()
	args := short("run", "--strategy", "fine:poll=4s", "--mix", "1x1", "--backend", "embedded")
	marketsim(t, args...).
		says(t, "rehearsing fine:poll=4s: it tries each command once, and waits for a lock")
}

// TestLoads: what a market differs in is in each of its rows and their names.
func TestLoads(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"lua 0x2 hot=3 hold=1ms rtt=0.5ms": {
			"--strategy", "lua", "--hot", "3", "--mix", "0x2", "--hold", "1ms", "--rtt", "500us",
		},
		"fine 1x2 stock=1500":       {"--strategy", "fine", "--mix", "1x2", "--stock", "1500"},
		"fine 0x5 hot=1":            {"--strategy", "fine", "--hot", "1"},
		"lua 4x3 markets=2":         {"--strategy", "lua", "--mix", "4x3", "--markets", "2"},
		"lua 2x1":                   {"--strategy", "lua", "--mix", "2x1", "--markets", "1"},
		"fine-wallet 2x2 wallets=1": {"--strategy", "fine-wallet", "--mix", "2x2", "--wallets", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := measured(t, short(append([]string{"run", "--backend", "embedded"}, args...)...)...)
			r := res.Rows[0]
			asked := r.Name() == name && r.Point == res.Manifest.Config.Points[0]
			if !asked || !r.Audit.OK || int(r.Audit.Items) < r.Stock {
				t.Errorf("the row is %s, and %+v", r.Name(), r)
			}
		})
	}
}

// unbroken is an outcome without the breaks of lines.
func unbroken(o outcome) outcome {
	o.stdout = strings.Join(strings.Fields(o.stdout), " ")
	return o
}

// TestReproduceEmbedded: what is not Redis's is not judged.
func TestReproduceEmbedded(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("reproduce", "--trials", "1", "--backend", "embedded")...).
		exits(t, exitFine)
	unbroken(o).says(t, "\n9/9 ", "embedded miniredis", "not judged", "install redis-server")
}

// TestRunAtRates: each rate is a row, and one that cannot be reached is no failure: three
// buyers make at most 150 purchases a second.
func TestRunAtRates(t *testing.T) {
	t.Parallel()
	o := marketsim(t, "run", "--strategy", "lua", "--mix", "2x3", "--rate", "10,0.5k",
		"--hold", "20ms", "--slo", "250ms", "--slo-fails", "--backend", "embedded",
		"--duration", "1s", "--warmup", "0s", "--format", "json").
		exits(t, exitViolation).says(t, "lua 2x3 hold=20ms at 500/s misses its SLO: ")
	res := parse(t, o.stdout)

	var names []string
	for _, r := range res.Rows {
		names = append(names, r.Name())
		if r.Open == nil || !r.Audit.OK {
			t.Fatalf("%s: %+v, audit %+v", r.Name(), r.Open, r.Audit)
		}

		// Orders fall due as a Poisson process. Chance alone hardly ever reaches six standard
		// deviations.
		due := r.Rate * r.Seconds
		off := math.Abs(float64(r.Open.Due) - due)
		if off > 6*math.Sqrt(due)+1 || r.Open.Done+r.Open.Backlog > r.Open.Due {
			t.Errorf("%s: want about %.0f orders due in %v s: %+v", r.Name(), due, r.Seconds, *r.Open)
		}

		if r.Rate == 500 && r.Open.Backlog < 250 {
			t.Errorf("more than can be made: %+v", *r.Open)
		}
	}

	want := []string{"lua 2x3 hold=20ms at 10/s", "lua 2x3 hold=20ms at 500/s"}
	if !slices.Equal(names, want) || res.Manifest.Config.SLOMS != 250 {
		t.Errorf("rows %q, want %q; %+v", names, want, res.Manifest.Config)
	}
}

// TestMissed: an SLO is missed where more than 1% of the orders is late, in the
// median of the rounds.
func TestMissed(t *testing.T) {
	const says = "violation: lua 1x1 at 1000/s misses its SLO: 1.05% of its orders are late"
	for late, want := range map[int64]string{20: "", 21: says} {
		run := &runs.Run{}
		for trial, late := range []int64{0, late, 2000} {
			point := result.Point{
				Strategy: "lua", Mix: result.Mix{Sellers: 1, Buyers: 1}, Load: result.Load{Rate: 1000},
			}
			run.Rows = append(run.Rows, result.Row{
				Point: point, Trial: trial, Open: &result.OpenLoop{Due: 2000, Late: late},
			})
		}
		if err := missed(run); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%d of 2000 orders late: %v, want %s", late, err, want)
		}
	}
}

// TestSweep: a strategy at each point of two axes, and what is no axis is the
// same everywhere.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	marketsim(t, "sweep", "--strategy", "lua",
		"--axis", "clients=1,2", "--axis", "hold=0,1ms", "--hot", "3",
		"--trials", "6", "--duration", "30ms", "--warmup", "0s", "--backend", "embedded", "--out", dir).
		exits(t, exitFine).
		says(t, "6 rounds of 4 rows of 30ms, at least 720ms in all", "\n24/24 ", "hold")

	res := parse(t, read(t, filepath.Join(dir, runFile)))
	var places []string
	for _, p := range compare.Places(res, nil) {
		places = append(places, p.Place)
	}
	want := []string{"0x1 hot=3", "0x1 hot=3 hold=1ms", "0x2 hot=3", "0x2 hot=3 hold=1ms"}
	if len(res.Rows) != 24 || !slices.Equal(places, want) {
		t.Errorf("%d rows at the points %q", len(res.Rows), places)
	}
}

// TestFlushIsTheEnvironment: somebody flushes the server while a run trades. That is no
// violation, and nothing stays.
func TestFlushIsTheEnvironment(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "run", "--strategy", "coarse:timeout=100ms", "--mix", "2x2", "--duration", "1m",
		"--redis", s.url(""))
	prefix := prefixOf(t, c)
	s.trading(t, prefix)
	s.conn.FlushAll(t.Context())
	c.end().exits(t, exitEnvironment).says(t, "the server lost keys of the run").
		silent(t, "violation", "left behind")
	s.holds(t)
}

// TestServerKilled: what was measured before the server's death is stored, without
// an audit.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := t.TempDir()

	running := make(chan outcome, 1)
	go func() {
		running <- marketsimUntil(t.Context(), "run", "--strategy", "fine,watch",
			"--mix", "2x2", "--duration", "10m", "--warmup", "0s",
			"--redis", s.url(""), "--prefix", "mine:", "--out", dir)
	}()
	s.trading(t, "mine:")

	killed := time.Now()
	testkit.Succeeds(t, s.Kill())

	o := <-running
	if took := time.Since(killed); took > patience {
		t.Errorf("the death of the server took %s to be told", took)
	}
	o.exits(t, exitEnvironment).
		says(t, "incomplete: 0 of 2 rows complete; the report holds what was measured",
			"could not be audited", "connection refused", s.url("")+" --prefix mine:",
			"stored in "+dir)

	res := parse(t, read(t, filepath.Join(dir, runFile)))
	if res.Status != stored.Incomplete || len(res.Rows) != 1 ||
		res.Rows[0].Status != stored.Incomplete {
		t.Fatalf("the result is not one incomplete row: %s %+v", res.Status, res.Rows)
	}
	if r := res.Rows[0]; r.Listed+r.Bought == 0 || r.Audit.Done {
		t.Errorf("want what was measured, without an audit: %+v", r)
	}
}

// TestOutOfMemory: a server that is full ends the run, whose market is audited and
// removed all the same.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	// A lock cannot be given back with MULTI when memory is full, so whoever
	// waits for it has to time out.
	for _, strategy := range []string{"watch", "coarse:timeout=500ms"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel() // on a server of its own: one that was full frees its memory in the background
			s := newExternal(t, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")

			o := marketsim(t, "run", "--strategy", strategy, "--mix", "3x1",
				"--duration", "10m", "--warmup", "0s",
				"--redis", s.url(""), "--prefix", "mine:", "--format", "json")
			o.exits(t, exitEnvironment).says(t, "OOM command not allowed")

			res := parse(t, o.stdout)
			one := res.Status == stored.Incomplete && len(res.Rows) == 1
			if !one || res.Rows[0].Listed+res.Rows[0].Bought == 0 || !res.Rows[0].Audit.OK {
				t.Fatalf("want one incomplete row, audited: %s %+v", res.Status, res.Rows)
			}

			s.holds(t)
		})
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

// parse reads a result, and nothing but a result.
func parse(t testing.TB, text string) *result.Run {
	t.Helper()
	res, err := result.ReadRun(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return res
}

func parseFile(t testing.TB, path string) *result.Run {
	t.Helper()
	return parse(t, read(t, path))
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRun(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		dir := t.TempDir()
		file := filepath.Join(t.TempDir(), "result.json")
		args := short("run", "--strategy", "watch,coarse:setnx,fine:poll=2ms,fine-wallet", "--mix", "1x1,2x1", "--seed", "7",
			"--backend", string(s.Name), "--out", dir, "--json", file)
		o := marketsim(t, args...).exits(t, exitFine).says(t, "backend: ", "1/8 watch 1x1: ", "8/8 fine-wallet 2x1: ", "stored in "+dir)
		if strings.Contains(o.stdout, "backend: ") || strings.Contains(o.stderr, "Rows") {
			t.Errorf("progress and report are not apart:\nstdout:\n%s\nstderr:\n%s", o.stdout, o.stderr)
		}
		res := parseFile(t, file)
		checkRun(t, res, string(s.Name))
		if got, want := read(t, filepath.Join(dir, runFile)), read(t, file); got != want {
			t.Errorf("--out and --json differ:\n%s\n%s", got, want)
		}
		redrawn(t, dir, o.stdout)
	})
}

func checkRun(t *testing.T, res *result.Run, kind string) {
	t.Helper()
	m := res.Manifest
	if res.Status != result.Complete || m.Backend != kind || m.Seed != 7 || !strings.Contains(m.Command, " run --strategy watch,") {
		t.Errorf("status %s, manifest %+v", res.Status, m)
	}
	if got := strings.Join(m.Config.Strategies, " "); got != "watch coarse fine:poll=2ms fine-wallet" {
		t.Errorf("strategies %q are not in canonical form", got)
	}
	if len(res.Rows) != 8 {
		t.Fatalf("%d rows, want 8", len(res.Rows))
	}
	listed := int64(0)
	for _, r := range res.Rows {
		if r.Status != result.Complete || !r.Audit.OK {
			t.Errorf("row %s %dx%d: %+v", r.Strategy, r.Sellers, r.Buyers, r)
		}
		listed += r.Listed
	}
	if listed == 0 {
		t.Error("no row has listed anything")
	}
}

// redrawn checks that what a run has written can be drawn again, byte for byte.
func redrawn(t *testing.T, dir, printed string) {
	t.Helper()
	for format, want := range map[string]string{
		"text":     read(t, filepath.Join(dir, "report.txt")),
		"markdown": read(t, filepath.Join(dir, "report.md")),
		"csv":      read(t, filepath.Join(dir, "rows.csv")),
		"json":     read(t, filepath.Join(dir, runFile)),
	} {
		if got := marketsim(t, "report", dir, "--format", format).exits(t, exitFine).stdout; got != want {
			t.Errorf("report --format %s draws\n%s\nand the run wrote\n%s", format, got, want)
		}
	}
	if got := read(t, filepath.Join(dir, "report.txt")); got != printed {
		t.Errorf("report.txt is not what was printed:\n%s\n%s", got, printed)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left in the folder: %q", left)
	}
}

func TestRunPrintsOnlyJSON(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("run", "--strategy", "fine", "--sellers", "2", "--buyers", "1", "--backend", "embedded", "--json", "-")...).
		exits(t, exitFine)
	if r := parse(t, o.stdout).Rows[0]; r.Sellers != 2 || r.Buyers != 1 {
		t.Errorf("the mix is %dx%d, want 2x1", r.Sellers, r.Buyers)
	}
}

// A device or a pipe is written to as it is, and not replaced.
func TestJSONToDevice(t *testing.T) {
	t.Parallel()
	marketsim(t, short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded", "--json", os.DevNull)...).exits(t, exitFine)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s has become a file (%v)", os.DevNull, err)
	}
}

func TestReproduceEmbedded(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("reproduce", "--trials", "6", "--backend", "embedded", "--json", filepath.Join(t.TempDir(), "r"))...).
		exits(t, exitFine).
		says(t, "6/6 rounds of 9 rows, about 0s left", "medians of 6 rounds", "Table 6-1 of Redis in Action",
			"EMBEDDED MINIREDIS", "0 hold, 0 do not, 11 not judged",
			"numbers of the embedded server are not Redis's: not judged", "book", "Table 6-2", "Table 6-3")
	if n := strings.Count(o.stderr, "/6 rounds"); n != 6 {
		t.Errorf("%d rounds were measured, want 6:\n%s", n, o.stderr)
	}
}

func TestReproduce(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	o := marketsim(t, short("reproduce", "--trials", "1", "--redis", s.url(""), "--json", "-")...).exits(t, exitFine)
	res := parse(t, o.stdout)
	if len(res.Rows) != 9 || len(res.Claims) != 11 {
		t.Fatalf("%d rows and %d claims, want 9 and 11", len(res.Rows), len(res.Claims))
	}
	if res.Claims[6].Holds == nil { // the one that does not ask for purchases in such a short time
		t.Errorf("a claim is not judged: %s", res.Claims[6].Measured)
	}
	s.holds(t)
}

func TestFencingMeasuresEachStrategyTwice(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	o := marketsim(t, short("run", "--strategy", "fine:fenced,fine-wallet:fenced+watchdog:ttl=1s", "--mix", "1x1,2x2", "--fencing",
		"--redis", s.url(""), "--json", "-")...).exits(t, exitFine)
	var rows []string
	for _, r := range parse(t, o.stdout).Rows {
		if !r.Audit.OK || r.Bought == 0 {
			t.Errorf("row %s: %d bought, audit %+v", r.Strategy, r.Bought, r.Audit)
		}
		rows = append(rows, r.Strategy)
	}
	fine, wallet := "fine:fenced:fencing=", "fine-wallet:fenced+watchdog:fencing="
	want := []string{
		fine + "off", fine + "on", fine + "off", fine + "on",
		wallet + "off:ttl=1s", wallet + "on:ttl=1s", wallet + "off:ttl=1s", wallet + "on:ttl=1s",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	s.holds(t)
}

// Fences outlive their holders, and go with the market.
func TestCleanRemovesFences(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	marketsim(t, short("run", "--strategy", "fine-wallet:fenced:fencing=on", "--mix", "1x1", "--keep", "--prefix", "mine:",
		"--redis", s.url(""))...).exits(t, exitFine)
	for _, key := range []string{"mine:fence:1", "mine:fence:users:2"} {
		if s.conn.Exists(t.Context(), key).Val() != 1 {
			t.Errorf("there is no %s", key)
		}
	}
	marketsim(t, "clean", "--prefix", "mine:", "--redis", s.url("")).exits(t, exitFine).says(t, "removed ")
	s.holds(t)
}

// TestFlushIsTheEnvironment: somebody flushes the server while a run trades. That is no violation, and nothing stays.
func TestFlushIsTheEnvironment(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "run", "--strategy", "coarse:timeout=100ms", "--mix", "2x2", "--duration", "1m", "--redis", s.url(""))
	prefix := prefixOf(t, c)
	s.trading(t, prefix)
	s.conn.FlushAll(t.Context())
	c.end().exits(t, exitEnvironment).says(t, "the server lost keys of the run").silent(t, "violation", "left behind")
	s.holds(t)
}

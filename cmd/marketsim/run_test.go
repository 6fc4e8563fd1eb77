package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// parse reads a result, and nothing but a result.
func parse(t testing.TB, text string) *bench.Result {
	t.Helper()
	res, err := bench.ReadResult(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return res
}

func parseFile(t testing.TB, path string) *bench.Result {
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
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		dir := t.TempDir()
		file := filepath.Join(t.TempDir(), "result.json")
		args := short("run", "--strategy", "watch,coarse:setnx,fine:poll=2ms,fine-wallet", "--mix", "1x1,2x1", "--seed", "7",
			"--backend", string(s.Kind), "--out", dir, "--json", file)
		o := marketsim(t, args...).exits(t, exitFine).says(t, "backend: ", "1/8 watch 1x1: ", "8/8 fine-wallet 2x1: ", "stored in "+dir)
		if strings.Contains(o.stdout, "backend: ") || strings.Contains(o.stderr, "Rows") {
			t.Errorf("progress and report are not apart:\nstdout:\n%s\nstderr:\n%s", o.stdout, o.stderr)
		}
		res := parseFile(t, file)
		checkRun(t, res, string(s.Kind))
		if got, want := read(t, filepath.Join(dir, resultFile)), read(t, file); got != want {
			t.Errorf("--out and --json differ:\n%s\n%s", got, want)
		}
		redrawn(t, dir, o.stdout)
	})
}

func checkRun(t *testing.T, res *bench.Result, kind string) {
	t.Helper()
	m := res.Manifest
	if res.Status != bench.Complete || m.Backend != kind || m.Seed != 7 || !strings.Contains(m.Command, " run --strategy watch,") {
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
		if r.Status != bench.Complete || !r.Audit.OK {
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
		"json":     read(t, filepath.Join(dir, resultFile)),
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

func TestReproduceOneTable(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("reproduce", "--tables", "6-1", "--backend", "embedded", "--json", filepath.Join(t.TempDir(), "r"))...).
		exits(t, exitFine).
		says(t, "3/3 watch 5x5", "Table 6-1 of Redis in Action", "EMBEDDED MINIREDIS", "0 hold, 0 do not, 8 not judged",
			"numbers of the embedded server are not Redis's: not judged", "book").
		silent(t, "Table 6-2", "coarse 1x1")
	if n := strings.Count(o.stderr, "/3 "); n != 3 {
		t.Errorf("%d rows were measured, want 3:\n%s", n, o.stderr)
	}
}

func TestReproduce(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	o := marketsim(t, short("reproduce", "--redis", s.url(""), "--json", "-")...).exits(t, exitFine)
	res := parse(t, o.stdout)
	if len(res.Rows) != 9 || len(res.Claims) != 8 {
		t.Fatalf("%d rows and %d claims, want 9 and 8", len(res.Rows), len(res.Claims))
	}
	if res.Claims[6].Holds == nil { // the one that does not ask for purchases in such a short time
		t.Errorf("a claim is not judged: %s", res.Claims[6].Measured)
	}
	s.holds(t)
}

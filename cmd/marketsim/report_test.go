package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
)

// stored is a run that package report draws in its own tests.
const stored = "../../bench/report/testdata/run.json"

func TestReportOfStoredRun(t *testing.T) {
	for format, golden := range map[string]string{"text": "run.txt", "markdown": "run.md", "csv": "run.csv", "json": "run.json"} {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(stored), golden))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{stored, filepath.Dir(stored)} {
			o := marketsim(t, "report", path, "--format", format).exits(t, exitFine)
			if o.stdout != string(want) || o.stderr != "" {
				t.Errorf("report %s --format %s differs from %s:\n%s%s", path, format, golden, o.stdout, o.stderr)
			}
		}
	}
}

// TestReportOfEveryStoredFolder draws whatever results/ holds. The tests of results/ draw each single result in every
// format.
func TestReportOfEveryStoredFolder(t *testing.T) {
	if testkit.Raced {
		t.Skip("one goroutine reads and draws megabytes: the race detector has nothing to see, and takes half a minute for it")
	}
	entries, err := os.ReadDir("../../results")
	if err != nil || len(entries) < 6 {
		t.Fatal(entries, err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		folder := filepath.Join("../../results", entry.Name())
		formats := report.Formats()
		if exists(filepath.Join(folder, runFile)) || exists(filepath.Join(folder, faultsFile)) {
			formats = []string{report.Text}
		}
		for _, format := range formats {
			o := marketsim(t, "report", folder, "--format", format)
			if format == report.CSV && o.code == exitUsage { // a folder with results of several kinds
				o.says(t, "other columns than")
				continue
			}
			if o.exits(t, exitFine); strings.Count(o.stdout, "\n") < 5 {
				t.Errorf("%s as %s: %q", folder, format, o.stdout)
			}
		}
	}
	runs := filepath.Join("..", "..", "results", "waiting-2026-11-22-redis-7.0.15")
	marketsim(t, "report", runs).exits(t, exitFine).says(t, filepath.Join("six", "run.json")+":\nmarketsim ")
	o := marketsim(t, "report", runs, "--format", "csv").exits(t, exitFine)
	if strings.Count(o.stdout, "run_status") != 1 || !strings.HasPrefix(o.stdout, "file,run_status,") {
		t.Errorf("the CSV of several runs:\n%s", o.stdout)
	}
}

func TestReportAsJSONFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "again.json")
	o := marketsim(t, "report", stored, "--json", file).exits(t, exitFine).says(t, "stored in "+file)
	if o.stdout != read(t, filepath.Join(filepath.Dir(stored), "run.txt")) || read(t, file) != read(t, stored) {
		t.Errorf("stdout is\n%s\nand the file\n%s", o.stdout, read(t, file))
	}
	if o := marketsim(t, "report", stored, "--json", "-").exits(t, exitFine); o.stdout != read(t, stored) {
		t.Errorf("--json - prints\n%s", o.stdout)
	}
}

// TestReportAsPage draws several results on one page, in a file and to stdout.
func TestReportAsPage(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "report.html")
	o := marketsim(t, "report", stored, storedFaults, "--format", "html", "-o", file).exits(t, exitFine).says(t, "stored in "+file)
	if o.stdout != "" {
		t.Errorf("stdout got %q", o.stdout)
	}
	page := read(t, file)
	for _, says := range []string{"<!doctype html>", stored, storedFaults, `class="matrix"`, "<svg"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page has no %q", says)
		}
	}
	again := marketsim(t, "report", stored, storedFaults, "--format", "html", "-o", "-").exits(t, exitFine)
	if again.stdout != page || again.stderr != "" {
		t.Errorf("stdout has another page, of %d bytes instead of %d; %s", len(again.stdout), len(page), again.stderr)
	}
	alone := marketsim(t, "report", stored, "--format", "html").exits(t, exitFine)
	if !strings.HasPrefix(alone.stdout, "<!doctype html>") || strings.Contains(alone.stdout, "<h2 id=\"found\"") {
		t.Errorf("the page of one result begins %.200q", alone.stdout)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
		t.Errorf("beside the page there are %v, %v", names, err)
	}
}

// TestReportInAFile: what goes to stdout goes to a file instead, in every format.
func TestReportInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	for _, format := range report.Formats() {
		o := marketsim(t, "report", stored, "--format", format, "--output", file).exits(t, exitFine)
		if want := marketsim(t, "report", stored, "--format", format).stdout; o.stdout != "" || read(t, file) != want {
			t.Errorf("as %s, stdout got %q and the file\n%s", format, o.stdout, read(t, file))
		}
	}
}

// TestReportOfSeveral: several results are drawn one after the other, also those of a folder with others beside it.
func TestReportOfSeveral(t *testing.T) {
	runs := filepath.Join("..", "..", "results", "waiting-2026-11-22-redis-7.0.15")
	six := filepath.Join(runs, "six")
	o := marketsim(t, "report", stored, six).exits(t, exitFine).says(t, stored+":\n", filepath.Join(six, runFile)+":\n")
	if both := read(t, filepath.Join(filepath.Dir(stored), "run.txt")); !strings.Contains(o.stdout, both) {
		t.Errorf("the first is not drawn as it is alone:\n%s", o.stdout)
	}
	marketsim(t, "report", stored, runs).exits(t, exitFine).says(t, stored+":\n", filepath.Join(six, runFile)+":\n",
		filepath.Join(runs, "eight", runFile)+":\n")
}

// TestReportOfSweep: a folder's sweep.json is read as the run that it is, also under another name, though a sweep has
// findings as stored faults have.
func TestReportOfSweep(t *testing.T) {
	res, err := result.ReadRun(strings.NewReader(read(t, stored)))
	if err != nil {
		t.Fatal(err)
	}
	res.Sweep = &result.Sweep{Findings: []string{"From 8 clients on fine passes coarse."}}
	dir := t.TempDir()
	for _, name := range []string{sweepFile, "other.json"} {
		path := filepath.Join(dir, name)
		if err := store(path, res.Write); err != nil {
			t.Fatal(err)
		}
		for _, arg := range []string{path, dir} {
			marketsim(t, "report", arg).exits(t, exitFine).says(t, "From 8 clients on fine passes coarse.")
		}
	}
}

// TestOutReplacesNothing unless it is forced.
func TestOutReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	args := short("run", "--strategy", "fine", "--mix", "1x1", "--backend", "embedded", "--out", dir)
	marketsim(t, args...).exits(t, exitFine)
	before := read(t, filepath.Join(dir, runFile))
	marketsim(t, args...).exits(t, exitUsage).says(t, "is there already", "--force").silent(t, "backend:")
	if read(t, filepath.Join(dir, runFile)) != before {
		t.Error("the result was replaced")
	}
	marketsim(t, append(args, "--force", "--seed", "9")...).exits(t, exitFine)
	if read(t, filepath.Join(dir, runFile)) == before {
		t.Error("the result was not replaced")
	}
}

// TestCleanHint can be pasted: it names the server as it was given, but not the password.
func TestCleanHint(t *testing.T) {
	for _, c := range []struct {
		flags serverFlags
		want  string
	}{
		{serverFlags{url: "redis://h:7"}, "marketsim clean --prefix 'marketsim:{1}:' --redis redis://h:7"},
		{serverFlags{url: "redis://u:pw@h:7/3"}, "REDIS_PASSWORD=... marketsim clean --prefix 'marketsim:{1}:' --redis redis://u@h:7/3"},
		{serverFlags{url: "unix:///a b/s.sock"}, "marketsim clean --prefix 'marketsim:{1}:' --redis unix:///a%20b/s.sock"},
	} {
		config, err := c.flags.config()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.clean("marketsim:{1}:"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	t.Setenv("REDIS_URL", "redis://:pw@h")
	t.Setenv("REDIS_PASSWORD", "pw")
	config, err := serverFlags{}.config()
	if got := config.clean("x:"); err != nil || got != "marketsim clean --prefix x:" {
		t.Errorf("with REDIS_URL: %s, %v", got, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/results/stored"
)

// storedRun is the file of a run of two strategies in six rounds, in a folder of its own.
func storedRun(t testing.TB) string {
	t.Helper()
	run := &result.Run{
		Schema:   result.Schema,
		Status:   stored.Complete,
		Manifest: result.Manifest{Backend: "local", Server: "redis"},
	}
	margin := 0.05
	run.Manifest.Config = result.Config{Trials: 6, DurationSeconds: 1, Margin: &margin}
	for _, strategy := range []string{"fine", "coarse"} {
		p := result.Point{Strategy: strategy, Mix: result.Mix{Sellers: 5, Buyers: 5}}
		run.Manifest.Config.Points = append(run.Manifest.Config.Points, p)
		for trial := 1; trial <= 6; trial++ {
			bought := int64(1000 + 10*trial*len(strategy))
			run.Rows = append(run.Rows, result.Row{
				Point:         p,
				Trial:         trial,
				Status:        stored.Complete,
				Seconds:       1,
				Listed:        2000,
				Bought:        bought,
				PerBuyer:      []int64{bought},
				Course:        []int64{bought},
				CourseSeconds: 1,
				WaitMS:        result.Latency{Mean: 2, P50: 1, P99: 5, Max: 6, Count: bought},
				Audit:         result.Audit{Done: true, OK: true, Items: 5000},
			})
		}
	}
	path := filepath.Join(t.TempDir(), runFile)
	testkit.Succeeds(t, store(path, false, run.Write))
	return path
}

// TestReport draws a run and faults, alone and together, from files and folders.
func TestReport(t *testing.T) {
	t.Parallel()
	run := storedRun(t)
	dir := filepath.Dir(run)
	for format, says := range map[string]string{
		"text":     "fine 5x5",
		"markdown": "fine 5x5",
		"csv":      ",fine,5,5,",
		"json":     `"strategy":"fine"`,
		"gobench":  "strategy=fine/mix=5x5",
	} {
		o := marketsim(t, "report", run, "--format", format).exits(t, exitFine)
		again := marketsim(t, "report", dir, "--format", format).exits(t, exitFine)
		if o.stdout != again.stdout || !strings.Contains(o.stdout, says) || o.stderr != "" {
			t.Errorf("%s: file and folder differ, or there is no %q:\n%s%s", format, says, o.stdout, o.stderr)
		}
	}
	marketsim(t, "report", run, storedFaults).exits(t, exitFine).says(t, "fine 5x5", "crash-holding",
		run+": ", filepath.Join(storedFaults, faultsFile)+": What fails")
	marketsim(t, "report", storedFaults, "--format", "markdown").exits(t, exitFine).says(t, "crash-holding")

	other := filepath.Join(dir, "below", "other") // its folder stands for all that is below it
	testkit.Succeeds(t, os.MkdirAll(other, 0o777))
	testkit.Succeeds(t, os.Rename(run, filepath.Join(other, runFile)))
	marketsim(t, "report", dir, storedRun(t), "--format", "csv").exits(t, exitFine).says(t, filepath.Join(other, runFile))
}

// TestReportInAFile: the ending decides between a page, a figure and the format.
func TestReportInAFile(t *testing.T) {
	t.Parallel()
	run, dir := storedRun(t), t.TempDir()
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"a.html": {[]string{run, storedFaults}, []string{"<!doctype html>", "<svg", "crash-holding", "fine 5x5"}},
		"a.SVG":  {[]string{run, "--figure", "throughput"}, []string{"<svg", "<title>"}},
		"a.txt":  {[]string{run}, []string{"fine 5x5"}},
		"a.md":   {[]string{run, "--format", "markdown"}, []string{"## ", "fine 5x5"}},
	} {
		file := filepath.Join(dir, name)
		o := marketsim(t, append([]string{"report", "-o", file}, c.args...)...).exits(t, exitFine).says(t, "stored in "+file)
		for _, says := range c.says {
			if !strings.Contains(strings.ToLower(read(t, file)), strings.ToLower(says)) || o.stdout != "" {
				t.Errorf("%s has no %q, or stdout got %q", name, says, o.stdout)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("beside the files there are %v, %v", left, err)
	}
}

// TestReportKeepsWhatItReads: a report does not take the place of the result that it draws.
func TestReportKeepsWhatItReads(t *testing.T) {
	run := storedRun(t)
	before := read(t, run)
	marketsim(t, "report", filepath.Dir(run), "-o", run).exits(t, exitUsage).says(t, run+" is a result to be reported")
	if read(t, run) != before {
		t.Error("the result is gone")
	}
}

// TestReportToADevice: it is written to as it is, and not replaced.
func TestReportToADevice(t *testing.T) {
	marketsim(t, "report", storedRun(t), "-o", os.DevNull).exits(t, exitFine)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s has become a file (%v)", os.DevNull, err)
	}
}

// TestCleanHint can be pasted: it names the server as it was given, but not the password.
func TestCleanHint(t *testing.T) {
	for _, c := range []struct {
		flags serverFlags
		want  string
	}{
		{
			flags: serverFlags{url: "redis://h:7"},
			want:  "marketsim clean --redis redis://h:7 --prefix 'marketsim:{1}:'",
		},
		{
			flags: serverFlags{url: "redis://u:pw@h:7/3"},
			want:  "REDIS_PASSWORD=... marketsim clean --redis 'redis://u@h:7?db=3' --prefix 'marketsim:{1}:'",
		},
		{
			flags: serverFlags{url: "unix:///a b/s.sock"},
			want:  "marketsim clean --redis unix:///a%20b/s.sock --prefix 'marketsim:{1}:'",
		},
	} {
		plan, err := c.flags.plan()
		if got := plan.clean("marketsim:{1}:"); err != nil || got != c.want {
			t.Errorf("got %s, %v; want %s", got, err, c.want)
		}
	}
	t.Setenv("REDIS_URL", "redis://:pw@h")
	t.Setenv("REDIS_PASSWORD", "pw")
	plan, err := serverFlags{}.plan()
	if got := plan.clean("x:"); err != nil || got != "marketsim clean --prefix x:" {
		t.Errorf("with REDIS_URL: %s, %v", got, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
)

// storedRun is the file of a run of two strategies in six rounds, in a folder of its own.
func storedRun(t testing.TB) string {
	t.Helper()
	run := &runs.Run{
		Schema:   runs.Schema,
		Status:   stored.Complete,
		Manifest: runs.Manifest{Backend: "local", Server: "redis"},
	}

	margin := 0.05
	run.Manifest.Config = runs.Config{Trials: 6, DurationSeconds: 1, Margin: &margin}

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
				Audit:         result.AuditSummary{Done: true, OK: true, Items: 5000},
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
			t.Errorf("%s: file and folder differ, or there is no %q:\n%s%s",
				format, says, o.stdout, o.stderr)
		}
	}
	marketsim(t, "report", run, storedFaults).exits(t, exitFine).says(t, "fine 5x5", "crash-holding",
		run+": ", filepath.Join(storedFaults, faultsFile)+": What fails")
	marketsim(t, "report", storedFaults, "--format", "markdown").exits(t, exitFine).
		says(t, "crash-holding")

	other := filepath.Join(dir, "below", "other") // its folder stands for all that is below it
	testkit.Succeeds(t, os.MkdirAll(other, 0o777))
	testkit.Succeeds(t, os.Rename(run, filepath.Join(other, runFile)))
	marketsim(t, "report", dir, storedRun(t), "--format", "csv").exits(t, exitFine).
		says(t, filepath.Join(other, runFile))
}

// TestReportInAFile: the ending decides what is written, unless --format does, and a
// file without one gets text.
func TestReportInAFile(t *testing.T) {
	t.Parallel()
	run, dir := storedRun(t), t.TempDir()
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"a.html": {[]string{run, storedFaults}, []string{
			"<!doctype html>", "<svg", "crash-holding", "fine 5x5",
		}},
		"a.SVG": {[]string{run, "--figure", "course"}, []string{
			"<svg", "over the measured time</title>",
		}},
		"a.txt":       {[]string{run}, []string{"\nrow ", "fine 5x5"}},
		"a.md":        {[]string{run}, []string{"## ", "fine 5x5"}},
		"a.csv":       {[]string{run}, []string{"run,run_status,", ",fine,5,5,"}},
		"a.json":      {[]string{run}, []string{`"strategy":"fine"`}},
		"faults.json": {[]string{storedFaults}, []string{`"findings":`}},
		"b.txt":       {[]string{run, "--format", "gobench"}, []string{"strategy=fine/mix=5x5"}},
		"b.png":       {[]string{run, "--format", "markdown"}, []string{"## ", "fine 5x5"}},
		"c":           {[]string{run}, []string{"\nrow ", "fine 5x5"}},
		"d":           {[]string{run, "--figure", "throughput"}, []string{"<svg"}},
		"e.out":       {[]string{run, "--format", "svg", "--figure", "throughput"}, []string{"<svg"}},
		"lock.md":     {[]string{storedFaults, "--lock", "set-px"}, []string{"# lock set-px"}},
		"lock.txt":    {[]string{storedFaults, "--lock", "set-px"}, []string{"set-px"}},
	} {
		file := filepath.Join(dir, name)
		o := marketsim(t, append([]string{"report", "-o", file}, c.args...)...).exits(t, exitFine).
			says(t, "stored in "+file)
		for _, says := range c.says {
			if !strings.Contains(strings.ToLower(read(t, file)), strings.ToLower(says)) || o.stdout != "" {
				t.Errorf("%s has no %q, or stdout got %q", name, says, o.stdout)
			}
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 14 {
		t.Errorf("beside the files there are %v, %v", left, err)
	}
}

// TestReportFirstFigure: without a name the first figure is drawn, and the
// others are named.
func TestReportFirstFigure(t *testing.T) {
	t.Parallel()
	run := storedRun(t)
	file := filepath.Join(t.TempDir(), "a.svg")
	marketsim(t, "report", run, "-o", file).exits(t, exitFine).
		says(t, "stored in "+file, "this is the figure throughput; --figure draws another: ", "course")
	if !strings.Contains(read(t, file), "<title>Purchases a second</title>") {
		t.Errorf("it is another figure:\n%s", read(t, file))
	}
	marketsim(t, "report", run, "--format", "svg").exits(t, exitFine).
		says(t, "<svg", "--figure draws another")
}

// TestReportRefusesEndings: what marketsim cannot write is refused by name, with the way
// to get it, before anything is read or written.
func TestReportRefusesEndings(t *testing.T) {
	t.Parallel()
	run, dir := storedRun(t), t.TempDir()
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"x.png": {[]string{run}, []string{
			"writes no .png", "marketsim report ", "x.svg && rsvg-convert ",
		}},
		"x.PNG": {[]string{run, "--figure", "throughput"}, []string{
			"writes no .png", " --figure throughput -o ",
		}},
		"x.pdf": {[]string{run}, []string{"writes no .pdf", "rsvg-convert --format pdf "}},
		"x.jpg": {[]string{run}, []string{
			"no format ends in .jpg", ".csv, .html, .json, .jsonl, .md, .svg, .txt", "--format",
		}},
		"a.b.x": {[]string{run}, []string{"no format ends in .x"}},
		"y.txt": {[]string{run, "--figure", "throughput"}, []string{
			"--figure is drawn as svg, and not as text",
		}},
		"f.svg":  {[]string{storedFaults}, []string{"there is no figure in"}},
		"t.svg":  {[]string{run, run}, []string{"these are 2", "-o FILE.html"}},
		"f.csv":  {[]string{storedFaults}, []string{"csv is for runs"}},
		"t.json": {[]string{run, run}, []string{"json is one result, and these are 2"}},
		"l.csv": {[]string{storedFaults, "--lock", "set-px"}, []string{
			"--lock tells in words, and not as csv",
		}},
		"n.svg": {[]string{run, "--figure", "thruput"}, []string{
			`unknown figure "thruput"`, `did you mean "throughput"?`,
		}},
	} {
		args := append([]string{"report", "-o", filepath.Join(dir, name)}, c.args...)
		marketsim(t, args...).exits(t, exitUsage).says(t, c.says...)
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// TestReportKeepsWhatItReads: a report does not take the place of the result that it draws.
func TestReportKeepsWhatItReads(t *testing.T) {
	run := storedRun(t)
	before := read(t, run)
	marketsim(t, "report", filepath.Dir(run), "-o", run).exits(t, exitUsage).
		says(t, run+" is a result to be reported")
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

	// clean reads both by itself, and the hint repeats neither.
	t.Setenv("REDIS_URL", "redis://:pw@h")
	t.Setenv("REDIS_PASSWORD", "pw")
	plan, err := serverFlags{}.plan()
	if got := plan.clean("x:"); err != nil || got != "marketsim clean --prefix x:" {
		t.Errorf("with REDIS_URL: %s, %v", got, err)
	}
}

package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
)

// The tests of this file see what a user sees, and nothing else: commands, exit codes,
// files by their names, columns by theirs, and what is left on a server. They hold
// whatever the inside looks like.

// table reads a CSV with a header: a map from heading to value for each line.
func table(t testing.TB, text string) (lines []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("no CSV with a header and lines (%v):\n%s", err, text)
	}
	for _, record := range all[1:] {
		line := map[string]string{}
		for i, name := range all[0] {
			line[name] = record[i]
		}
		lines = append(lines, line)
	}
	return lines
}

func number(t testing.TB, line map[string]string, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(line[name], 64)
	if err != nil {
		t.Fatalf("column %s is no number: %q", name, line[name])
	}
	return v
}

// whereAllBought measures rows, and returns where their results are, and what the command
// said. On a busy machine a row may end before anybody has bought: then it is measured for
// longer, up to 24 s.
func whereAllBought(t *testing.T, args ...string) (dir string, o outcome) {
	t.Helper()
	for duration := 300 * time.Millisecond; ; duration *= 3 {
		dir = filepath.Join(t.TempDir(), duration.String())
		timed := []string{"run", "--out", dir, "--warmup", "0s", "--duration", duration.String()}
		o = marketsim(t, append(timed, args...)...).exits(t, exitFine)

		drawn := marketsim(t, "report", dir, "--format", "gobench").exits(t, exitFine).stdout
		if duration > 20*time.Second || !strings.Contains(drawn, "bought nothing") {
			return dir, o
		}
	}
}

// TestOutsideRun: rows are measured, stored, drawn again in each format, and
// nothing of anybody's is touched.
func TestOutsideRun(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for _, theirs := range []string{"theirs", "marketsim:{other}:market:"} {
		testkit.Succeeds(t, s.conn.Set(t.Context(), theirs, "kept", 0).Err())
	}

	// With WATCH a seller may leave no time for a purchase on a busy machine.
	dir, o := whereAllBought(t, "--strategy", "fine,lua", "--mix", "1x1,1x2", "--redis", s.url(""))
	s.holds(t, "theirs", "marketsim:{other}:market:")
	if read(t, filepath.Join(dir, "run.json")) == "" ||
		marketsim(t, "report", dir).exits(t, exitFine).stdout != o.stdout {
		t.Error("report does not draw what was printed")
	}

	lines := table(t, marketsim(t, "report", dir, "--format", "csv").exits(t, exitFine).stdout)
	if len(lines) != 4 {
		t.Fatalf("%d rows in the CSV, want 4", len(lines))
	}
	for _, line := range lines {
		name := line["strategy"] + " " + line["sellers"] + "x" + line["buyers"]
		bought := number(t, line, "bought")
		rate := number(t, line, "purchases_per_second")
		seconds := number(t, line, "seconds")
		ended := line["status"] == "complete" && line["audit_ok"] == "true"
		fits := rate >= 0.99*bought/seconds && rate <= 1.01*bought/seconds
		if !ended || bought == 0 || !fits {
			t.Errorf("%s: %s, audit %s, %v bought in %v s, %v/s",
				name, line["status"], line["audit_ok"], bought, seconds, rate)
		}

		p50 := number(t, line, "wait_ms_p50")
		p99 := number(t, line, "wait_ms_p99")
		most := number(t, line, "wait_ms_max")
		if p50 <= 0 || p50 > p99 || p99 > most {
			t.Errorf("%s: waits p50 %v, p99 %v, max %v", name, p50, p99, most)
		}

		for _, format := range []string{"text", "markdown"} {
			marketsim(t, "report", dir, "--format", format).exits(t, exitFine).says(t, line["strategy"])
		}
	}
}

// TestOutsideGobench: report --format gobench is what benchstat reads.
func TestOutsideGobench(t *testing.T) {
	t.Parallel()
	dir, _ := whereAllBought(t, "--strategy", "fine", "--mix", "2x2", "--backend", "embedded")
	text := marketsim(t, "report", dir, "--format", "gobench").exits(t, exitFine).stdout

	r, found := benchfmt.NewReader(strings.NewReader(text), "stdout"), 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			found++
			v, ok := rec.Value("purchases/s")
			if !ok || v <= 0 || !strings.Contains(string(rec.Name), "strategy=fine/mix=2x2") {
				t.Errorf("%s has %v purchases/s", rec.Name, v)
			}
		case *benchfmt.SyntaxError:
			t.Error(rec)
		}
	}

	if err := r.Err(); err != nil || found != 1 {
		t.Errorf("%d results, %v in\n%s", found, err, text)
	}
}

// whereUnsafeDoesHarm runs the control until it has done harm, and returns where its history
// is. On a busy machine a row may end before two buyers have met: then it runs for longer, up
// to 24 s.
func whereUnsafeDoesHarm(t *testing.T, kind string) (recorded string) {
	t.Helper()
	for duration := 300 * time.Millisecond; ; duration *= 3 {
		recorded = filepath.Join(t.TempDir(), duration.String())
		o := marketsim(t, "run", "--strategy", "unsafe", "--mix", "5x5", "--hold", "1ms",
			"--warmup", "0s", "--duration", duration.String(),
			"--backend", kind, "--history", recorded)
		if o.code != exitFine || duration > 20*time.Second {
			o.exits(t, exitViolation).says(t, "violation")
			return recorded
		}
	}
}

// TestOutsideUnsafe: the control loses money or items, the audit and the history both
// see it, and the exit code is 3.
func TestOutsideUnsafe(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		recorded := whereUnsafeDoesHarm(t, string(s.Name))
		marketsim(t, "check", recorded).exits(t, exitViolation).says(t, "VIOLATED")

		sound := filepath.Join(t.TempDir(), "history")
		marketsim(t, short("run", "--strategy", "watch", "--mix", "2x2",
			"--backend", string(s.Name), "--history", sound)...).exits(t, exitFine)
		marketsim(t, "check", sound).exits(t, exitFine).says(t, "LINEARIZABLE")
	})
}

// TestOutsideComparison: rounds end in a verdict for each pair at each place, also of a
// strategy with itself, which the stored result repeats.
func TestOutsideComparison(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	o := marketsim(t, short("compare", "lua", "lua", "--mix", "1x1", "--trials", "6",
		"--margin", "7.5%", "--backend", "embedded", "--out", dir)...).
		exits(t, exitFine).
		says(t, "6 rounds of 2 rows", "the same again", "from 0.930 to 1.075")
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand compare drew\n%s", again.stdout, o.stdout)
	}
	if !regexp.MustCompile("faster than|slower than|no difference|not decided").MatchString(o.stdout) {
		t.Errorf("no verdict in\n%s", o.stdout)
	}
}

// TestOutsidePage: the page of a run opens in a browser, with figures, and the browser
// has nothing to say about it.
func TestOutsidePage(t *testing.T) {
	t.Parallel()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		testkit.Require(t, "chromium",
			"there is no chromium in PATH to open a page with (apt-get install chromium installs it)")
	}

	dir := t.TempDir()
	marketsim(t, short("run", "--strategy", "fine,lua", "--mix", "1x1,2x2", "--backend", "embedded",
		"--out", filepath.Join(dir, "out"))...).exits(t, exitFine)
	page := filepath.Join(dir, "page.html")
	marketsim(t, "report", filepath.Join(dir, "out"), "-o", page).exits(t, exitFine)

	browser := exec.CommandContext(t.Context(), chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+page)
	var stderr strings.Builder
	browser.Stderr = &stderr
	dom, err := browser.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}

	figures := strings.Count(string(dom), "<svg")
	if figures < 2 || !strings.Contains(string(dom), "<table") {
		t.Errorf("the browser shows %d figures", figures)
	}

	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the browser says %s", line)
		}
	}
}

// TestOutsideReproduce: the book's nine rows stand beside the book's numbers, and each
// claim is judged or said not to be.
func TestOutsideReproduce(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := filepath.Join(t.TempDir(), "out")
	marketsim(t, short("reproduce", "--trials", "1", "--redis", s.url(""), "--out", dir)...).
		exits(t, exitFine).says(t, "6-1", "6-2", "6-3", "145,000", "claims")
	s.holds(t)
	lines := table(t, marketsim(t, "report", dir, "--format", "csv").exits(t, exitFine).stdout)
	if len(lines) != 9 {
		t.Errorf("%d rows, want the book's nine", len(lines))
	}
}

// TestOutsideFaults plays some scenarios and finds what is stored in
// results/faults. (CI compares all cells.)
func TestOutsideFaults(t *testing.T) {
	if !testkit.Long() {
		t.Skip("fifteen scenarios, each of some seconds: set MARKETSIM_LONG=all")
	}
	t.Parallel()
	testkit.Local(t)

	type found struct {
		Findings []struct{ Scenario, Subject, Verdict, Harm string }
	}
	read := func(text string) map[[2]string]string {
		var f found
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		cells := map[[2]string]string{}
		for _, c := range f.Findings {
			cells[[2]string{c.Scenario, c.Subject}] = c.Verdict + " " + c.Harm
		}
		return cells
	}

	want := read(string(testkit.Must(os.ReadFile(filepath.Join(storedFaults, faultsFile)))(t)))
	o := marketsim(t, "faults", "--scenario", "crash-holding,pause,pause-release",
		"--lock", "watch,setnx,set-ex-fixed,set-px,set-px:fencing=token", "--format", "json")
	if o.code != exitFine && o.code != exitViolation {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}

	got := read(o.stdout)
	if len(got) != 15 {
		t.Errorf("%d cells, want 15", len(got))
	}
	for cell, is := range got {
		if is != want[cell] {
			t.Errorf("%v: %q, and %q is stored", cell, is, want[cell])
		}
	}
}

// TestOutsideExitCodes: each kind of end has its code, and says what to do.
func TestOutsideExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFine, "marketsim", []string{"--help"}},
		{exitFine, "watch", []string{"list"}},
		{exitFine, "set-px", []string{"list", "--locks"}},
		{exitUsage, "unknown", []string{"run", "--strategy", "fien"}},
		{exitUsage, "mix", []string{"run", "--strategy", "fine", "--mix", "5by5"}},
		{exitUsage, "duration", []string{"run", "--strategy", "fine", "--duration", "0s"}},
		{exitUsage, "unknown command", []string{"rnu"}},
		{exitUsage, "nowhere", []string{"report", "nowhere"}},
		{exitUsage, "nowhere", []string{"check", "nowhere"}},
		{exitEnvironment, "refused",
			[]string{"run", "--strategy", "fine", "--redis", "redis://" + refusedAddr(t)}},
	} {
		marketsim(t, c.args...).exits(t, c.code).says(t, c.says)
	}
}

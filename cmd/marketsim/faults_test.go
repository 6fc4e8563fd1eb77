package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
)

// storedFaults is a table of faults that is kept.
const storedFaults = "../../results/faults"

func readFaults(t *testing.T, text string) *result.Faults {
	t.Helper()
	res, err := result.ReadFaults(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return res
}

// TestFaults runs two scenarios, the way a reader of the book would ask about its locks.
func TestFaults(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	dir := t.TempDir()
	o := marketsim(t, "faults", "--scenario", "crash-half-taken,clock-behind", "--lock",
		"setnx-expire-naive,set-px+watchdog,set-px:expiry=pxat,watch", "--out", dir).exits(t, exitFine).
		says(t, "others kept out: never while observed\n                    setnx-expire-naive\n",
			"sold twice        others kept out: not asked\n                    set-px:expiry=pxat\n",
			"watch (it reads no clock)", "Scenarios 1 to 2:", "stored in "+dir, "2/2 ")
	if n := strings.Count(o.stderr, "\n"); n != 5 {
		t.Errorf("%d lines on stderr, want what runs, the backend, two scenarios and the folder:\n%s", n, o.stderr)
	}
	res := readFaults(t, read(t, filepath.Join(dir, faultsFile)))
	if res.Status != result.Complete || len(res.Findings) != 8 || res.Manifest.Server != "redis" {
		t.Errorf("stored %+v", res)
	}
	for file, args := range map[string][]string{
		"faults.txt": {dir}, "faults.md": {filepath.Join(dir, faultsFile), "--format", "markdown"}, faultsFile: {dir, "--format", "json"},
	} {
		again := marketsim(t, append([]string{"report"}, args...)...).exits(t, exitFine)
		if stored := read(t, filepath.Join(dir, file)); again.stdout != stored || file == "faults.txt" && o.stdout != stored {
			t.Errorf("%s differs from\n%s", file, again.stdout)
		}
	}
}

// TestFaultsAsJSON prints nothing else on stdout, and each scenario and lock once.
func TestFaultsAsJSON(t *testing.T) {
	t.Parallel()
	o := marketsim(t, "faults", "--json", "-", "--scenario", "crash-half-taken,crash-half-taken", "--lock", "watch,watch,setnx").
		exits(t, exitFine)
	if res := readFaults(t, o.stdout); len(res.Findings) != 2 || res.Findings[0].Verdict != result.NotApplicable {
		t.Errorf("found %+v", res.Findings)
	}
}

// TestFaultsOnABareMachine says what is missing, and runs the rest.
func TestFaultsOnABareMachine(t *testing.T) {
	t.Parallel()
	startChildIn(t, []string{"PATH=" + t.TempDir()}, "faults", "--scenario", "crash-holding", "--lock",
		"zookeeper,redlock,setnx").end().exits(t, exitFine).
		says(t, "EMBEDDED MINIREDIS", "not played        zookeeper\n", "not played        redlock\n", "install",
			"others kept out: never while observed\n                    setnx\n")
}

// TestReportFindsFaults under any name, and leaves runs alone.
func TestReportFindsFaults(t *testing.T) {
	other := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(other, []byte(read(t, filepath.Join(storedFaults, faultsFile))), 0o666); err != nil {
		t.Fatal(err)
	}
	o := marketsim(t, "report", other).exits(t, exitFine)
	if want := marketsim(t, "report", storedFaults).exits(t, exitFine).stdout; o.stdout != want || !strings.Contains(want, "\nMatrix\n") {
		t.Errorf("drawn\n%s\nwant\n%s", o.stdout, want)
	}
}

// TestBrokenPromiseIsAViolation, also where more went wrong.
func TestBrokenPromiseIsAViolation(t *testing.T) {
	res := &result.Faults{Findings: []result.Finding{
		{Scenario: "pause", Subject: "fenced", Verdict: "sold twice", Broken: "fenced"},
		{Scenario: "pause", Subject: "set-px", Verdict: "sold twice"},
	}}
	err := promisesBroken(res)
	if exitCode(err) != exitViolation || strings.Contains(err.Error(), "set-px") ||
		!strings.Contains(err.Error(), `fenced promises "fenced", and scenario pause found it sold twice`) {
		t.Errorf("%v exits %d", err, exitCode(err))
	}
	if code := exitCode(errors.Join(err, errInterrupted)); code != exitViolation {
		t.Errorf("interrupted too, it exits %d", code)
	}
	if err := promisesBroken(&result.Faults{Findings: res.Findings[1:]}); err != nil {
		t.Errorf("harm that nobody promised to survive: %v", err)
	}
}

func TestFaultProgress(t *testing.T) {
	var lines, bar transcript
	for _, p := range []*faultProgress{newFaultProgress(&lines, false, 2, 2), newFaultProgress(&bar, true, 2, 2)} {
		for _, scenario := range []string{"pause", "crash", "crash", "pause"} {
			p.finding(result.Finding{Scenario: scenario})
		}
		p.end()
	}
	if want := "1/2 crash\n2/2 pause\n"; lines.String() != want {
		t.Errorf("got %q, want %q", lines.String(), want)
	}
	if !strings.Contains(bar.String(), "crash (finding 2 of 4)") {
		t.Errorf("no bar: %q", bar.String())
	}
}

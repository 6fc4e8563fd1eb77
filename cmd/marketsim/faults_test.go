package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// storedFaults is a table of faults that is kept.
const storedFaults = "../../results/faults-2026-11-21-redis-7.0.15"

func readFaults(t *testing.T, text string) *fault.Result {
	t.Helper()
	res, err := fault.ReadResult(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return res
}

// TestFaults plays two scenarios, the way a reader of the book would ask about its locks.
func TestFaults(t *testing.T) {
	backendtest.Local(t)
	dir := t.TempDir()
	o := marketsim(t, "faults", "--scenario", "crash-half-taken,clock-behind", "--lock",
		"setnx-expire-naive,set-px+watchdog,set-px:expiry=pxat,watch", "--out", dir).exits(t, exitFine).
		says(t, "stuck for good  setnx-expire-naive\n", "sold twice      set-px:expiry=pxat\n",
			"watch (it reads no clock)", "Scenarios 1 to 2:", "stored in "+dir, "2/2 ")
	if n := strings.Count(o.stderr, "\n"); n != 4 {
		t.Errorf("%d lines on stderr, want the backend, two scenarios and the folder:\n%s", n, o.stderr)
	}
	res := readFaults(t, read(t, filepath.Join(dir, faultsFile)))
	if res.Status != bench.Complete || len(res.Findings) != 8 || res.Manifest.Server != "redis" {
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
	o := marketsim(t, "faults", "--json", "--scenario", "crash-half-taken,crash-half-taken", "--lock", "watch,watch,setnx").
		exits(t, exitFine)
	if res := readFaults(t, o.stdout); len(res.Findings) != 2 || res.Findings[0].Verdict != fault.NotApplicable {
		t.Errorf("found %+v", res.Findings)
	}
}

// TestFaultsOnABareMachine says what is missing, and plays the rest.
func TestFaultsOnABareMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	marketsim(t, "faults", "--scenario", "crash-holding", "--lock", "zookeeper,redlock,setnx").exits(t, exitFine).
		says(t, "EMBEDDED MINIREDIS", "not played      zookeeper\n", "not played      redlock\n", "install",
			"stuck for good  setnx\n")
}

// TestReportFindsFaults under any name, and leaves runs alone.
func TestReportFindsFaults(t *testing.T) {
	other := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(other, []byte(read(t, filepath.Join(storedFaults, faultsFile))), 0o666); err != nil {
		t.Fatal(err)
	}
	o := marketsim(t, "report", other).exits(t, exitFine)
	if o.stdout != read(t, filepath.Join(storedFaults, "faults.txt")) {
		t.Errorf("drawn\n%s", o.stdout)
	}
}

// TestBrokenPromiseIsAViolation, also where more went wrong.
func TestBrokenPromiseIsAViolation(t *testing.T) {
	res := &fault.Result{Findings: []fault.Finding{
		{Scenario: "pause", Subject: "fenced", Verdict: fault.SoldTwice, Broken: "fenced"},
		{Scenario: "pause", Subject: "set-px", Verdict: fault.SoldTwice},
	}}
	err := promisesBroken(res)
	if exitCode(err) != exitViolation || strings.Contains(err.Error(), "set-px") ||
		!strings.Contains(err.Error(), `fenced promises "fenced", and scenario pause found it sold twice`) {
		t.Errorf("%v exits %d", err, exitCode(err))
	}
	if code := exitCode(errors.Join(err, errInterrupted)); code != exitViolation {
		t.Errorf("interrupted too, it exits %d", code)
	}
	if err := promisesBroken(&fault.Result{Findings: res.Findings[1:]}); err != nil {
		t.Errorf("harm that nobody promised to survive: %v", err)
	}
}

func TestFaultProgress(t *testing.T) {
	var lines, bar transcript
	for _, p := range []*faultProgress{newFaultProgress(&lines, false, 2, 2), newFaultProgress(&bar, true, 2, 2)} {
		for _, scenario := range []string{"pause", "crash", "crash", "pause"} {
			p.told(fault.Finding{Scenario: scenario})
		}
		p.end()
	}
	if want := "1/2 crash\n2/2 pause\n"; lines.String() != want {
		t.Errorf("got %q, want %q", lines.String(), want)
	}
	if !strings.Contains(bar.String(), "(2/4)") && !strings.Contains(bar.String(), "2/4") {
		t.Errorf("no bar: %q", bar.String())
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// storedFaults is a table of faults that is kept.
const storedFaults = "../../results/faults"

func parseFaults(t *testing.T, text string) *findings.FaultTable {
	t.Helper()
	res, err := findings.ReadFaultTable(strings.NewReader(text))
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
		"setnx-expire-naive,redsync,set-px:expiry=pxat,watch", "--out", dir).exits(t, exitFine).
		says(t, "setnx-expire-naive", "sold twice", "never", "stored in "+dir, "\n2/2 ")
	if n := strings.Count(o.stderr, "\n"); n != 5 {
		t.Errorf("%d lines on stderr, want what runs, the backend, two scenarios and the folder:\n%s",
			n, o.stderr)
	}

	res := parseFaults(t, read(t, filepath.Join(dir, faultsFile)))
	if res.Status != stored.Complete || len(res.Findings) != 8 || res.Manifest.Server != "redis" ||
		len(res.Manifest.Libraries) != 2 { // go-redis and redsync
		t.Errorf("stored %+v", res)
	}

	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand faults drew\n%s", again.stdout, o.stdout)
	}
}

// TestFaultsOnABareMachine says what is missing, and runs the rest.
func TestFaultsOnABareMachine(t *testing.T) {
	t.Parallel()
	o := startChildIn(t, []string{"PATH=" + t.TempDir()}, "faults", "--scenario", "crash-holding",
		"--lock", "zookeeper,redlock,watch", "--format", "json").end().exits(t, exitFine)
	for i, f := range parseFaults(t, o.stdout).Findings {
		if bare := i < 2; bare != (f.Verdict == verify.Unavailable) ||
			bare && !strings.Contains(f.Why, "install") {
			t.Errorf("%+v", f)
		}
	}
}

// TestFaultsAdded: a machine without servers plays what it can of what is
// missing or named, and keeps the rest, marked. The file stays as it is, byte by
// byte, where nothing is missing.
func TestFaultsAdded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, faultsFile)
	stored := read(t, filepath.Join(storedFaults, faultsFile))

	write := func(text string) {
		testkit.Succeeds(t, os.WriteFile(path, []byte(text), 0o666))
	}

	// The child finds no program in its PATH: what needs other servers cannot be played again.
	add := func(args ...string) outcome {
		return startChildIn(t, []string{"PATH=" + t.TempDir()},
			append([]string{"faults", "--add", dir}, args...)...).end()
	}

	write(stored)
	add().exits(t, exitFine).says(t, "nothing is missing")
	if read(t, path) != stored {
		t.Error("the complete table changed")
	}

	add("--scenario", "crash-holding", "--lock", "watch,zookeeper,redlock").exits(t, exitFine).
		says(t, "1/1 crash-holding", "2 findings were not played here, and kept as stored before")
	before, after := parseFaults(t, stored), parseFaults(t, read(t, path))

	kept := 0
	for i, f := range after.Findings {
		if f.Kept != "" {
			kept++
			f.Kept = ""
		}
		if f != before.Findings[i] {
			t.Errorf("it became %+v, and was %+v", f, before.Findings[i])
		}
	}
	if kept != 2 {
		t.Errorf("%d findings are marked as kept, want 2", kept)
	}

	add("--scenario", "master-promoted").exits(t, exitUsage).
		says(t, "master-promoted is not in that table")
	add("--lock", "coarse:set-px").exits(t, exitUsage).says(t, "coarse:set-px is not in that table")
	write("{")
	add().exits(t, exitUsage).says(t, "--add: ")
}

// TestBrokenPromiseIsAViolation, even if more went wrong.
func TestBrokenPromiseIsAViolation(t *testing.T) {
	res := &findings.FaultTable{Findings: []findings.Finding{
		{Scenario: "pause", Subject: "fenced", Verdict: "sold twice", Broken: "fenced"},
		{Scenario: "pause", Subject: "set-px", Verdict: "sold twice"},
	}}

	err := promisesBroken(res)
	if exitCode(err) != exitViolation || strings.Contains(err.Error(), "set-px") ||
		!strings.Contains(err.Error(),
			`fenced promises "fenced", and scenario pause found it sold twice`) {
		t.Errorf("%v exits %d", err, exitCode(err))
	}

	says := evidence("fenced", "", []namedResult{{"", res}})[0].Note[0]
	if !strings.Contains(says, "BROKEN PROMISE fenced: ") {
		t.Errorf("the list says of it: %s", says)
	}

	if code := exitCode(errors.Join(err, errInterrupted)); code != exitViolation {
		t.Errorf("interrupted too, it exits %d", code)
	}

	if err := promisesBroken(&findings.FaultTable{Findings: res.Findings[1:]}); err != nil {
		t.Errorf("harm that nobody promised to survive: %v", err)
	}
}

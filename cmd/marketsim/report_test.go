package main

import (
	"os"
	"path/filepath"
	"testing"
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

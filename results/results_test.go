package results_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/report"
)

// TestStoredReportsAreMadeFromRunJSON draws every stored run again.
func TestStoredReportsAreMadeFromRunJSON(t *testing.T) {
	runs, err := filepath.Glob("*/run.json")
	rough, errRough := filepath.Glob("*/*/run.json")
	runs, err = append(runs, rough...), errors.Join(err, errRough)
	if err != nil || len(runs) == 0 {
		t.Fatalf("no stored runs: %v", err)
	}
	for _, path := range runs {
		res := read(t, path)
		if res.Status != bench.Complete {
			t.Errorf("%s: status %s", path, res.Status)
		}
		for name, draw := range map[string]func(io.Writer) error{
			"run.json":   res.Write,
			"report.txt": func(w io.Writer) error { return report.Text(w, res, report.Options{}) },
			"report.md":  func(w io.Writer) error { return report.Markdown(w, res) },
			"rows.csv":   func(w io.Writer) error { return report.CSV(w, res) },
		} {
			var drawn bytes.Buffer
			if err := draw(&drawn); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			stored, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
			if err != nil || !bytes.Equal(stored, drawn.Bytes()) {
				t.Errorf("%s in %s is not what run.json makes (%v): draw it again with 'marketsim report'", name, filepath.Dir(path), err)
			}
		}
	}
}

// TestStoredFaultsAreMadeFromFaultsJSON draws all stored faults again.
func TestStoredFaultsAreMadeFromFaultsJSON(t *testing.T) {
	paths, err := filepath.Glob("*/faults.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stored faults: %v", err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		res, err := fault.ReadResult(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for name, format := range map[string]string{"faults.json": "json", "faults.txt": "text", "faults.md": "markdown"} {
			var drawn bytes.Buffer
			if err := report.WriteFaults(&drawn, format, res); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			stored, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
			if err != nil || !bytes.Equal(stored, drawn.Bytes()) {
				t.Errorf("%s in %s is not what faults.json makes (%v): draw it again with 'marketsim report'", name, filepath.Dir(path), err)
			}
		}
	}
}

// TestREADMEShowsStoredNumbers compares the table in the README with the run it names.
func TestREADMEShowsStoredNumbers(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- from results/2026-11-20-redis-7.0.15 -->\n")
	table, _, closed := strings.Cut(rest, "<!-- end -->")
	if !found || !closed {
		t.Fatal("README.md has no marked table")
	}
	var drawn bytes.Buffer
	if err := report.Markdown(&drawn, read(t, "2026-11-20-redis-7.0.15/run.json")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table) {
		if !strings.Contains(drawn.String(), line) {
			t.Errorf("README.md says what the stored run does not: %s", line)
		}
	}
}

func read(t *testing.T, path string) *bench.Result {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := bench.ReadResult(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return res
}

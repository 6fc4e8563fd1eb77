package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// faultsFolder holds the stored table of faults.
const faultsFolder = "faults"

// TestStoredRuns: every stored run is complete, and can be drawn in every format.
func TestStoredRuns(t *testing.T) {
	paths := glob(t, "*/run.json", "*/*/run.json", "*/*/sweep.json")
	for _, path := range paths {
		res := readRun(t, path)
		if res.Status != result.Complete || len(res.Rows) == 0 {
			t.Errorf("%s: status %s, %d rows", path, res.Status, len(res.Rows))
		}
		drawn(t, path, report.Run(res), false) // they hold fields that are no longer measured
	}
}

// TestStoredFaults: the same of the stored faults, which are as marketsim writes them.
func TestStoredFaults(t *testing.T) {
	res := readFaults(t)
	if res.Status != result.Complete || len(res.Findings) == 0 {
		t.Errorf("status %s, %d findings", res.Status, len(res.Findings))
	}
	drawn(t, filepath.Join(faultsFolder, "faults.json"), report.Faults(res), true)
}

// drawn draws a stored result in every format, of which JSON is what is stored if it is asked for.
func drawn(t *testing.T, path string, d *report.Document, same bool) {
	t.Helper()
	for _, format := range report.Formats() {
		var b bytes.Buffer
		if err := d.Write(&b, format, report.Options{}); err != nil || b.Len() == 0 {
			t.Errorf("%s as %s: %v, %d bytes", path, format, err, b.Len())
		}
		if same && format == report.JSON && b.String() != text(t, path) {
			t.Errorf("%s is not as marketsim writes it", path)
		}
	}
}

func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is stored as %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func readRun(t *testing.T, path string) *result.Run {
	t.Helper()
	res, err := result.ReadRun(strings.NewReader(text(t, path)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return res
}

// storedFaults reads the table once: pages tell of hundreds of its findings.
var storedFaults = sync.OnceValues(func() (*result.Faults, error) {
	f, err := os.Open(filepath.Join(faultsFolder, "faults.json"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return result.ReadFaults(f)
})

func readFaults(t *testing.T) *result.Faults {
	t.Helper()
	res, err := storedFaults()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

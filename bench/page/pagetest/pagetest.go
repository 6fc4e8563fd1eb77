// Package pagetest opens pages of package page in a browser, and gives their tests the results that are stored. The
// browser's library is large: in a package of its own it is not compiled once more to fuzz package page.
package pagetest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/marketsim/marketsim/bench/page"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// Book is where a run of the book's tables in nine rounds is stored, with nearly everything that a run records.
const Book = "2026-11-22-redis-7.0.15/run.json"

// Results are the documents of all that is stored in a folder.
func Results(t testing.TB, stored string) *report.Document {
	t.Helper()
	var names []string
	var docs []*report.Document
	for _, pattern := range []string{"*/*.json", "*/*/*.json"} {
		paths, err := filepath.Glob(filepath.Join(stored, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			names, docs = append(names, path), append(docs, Document(t, path))
		}
	}
	if len(docs) < 8 {
		t.Fatalf("only %v are stored", names)
	}
	return report.Several(names, docs)
}

// Document reads what is stored in a file.
func Document(t testing.TB, path string) *report.Document {
	t.Helper()
	if filepath.Base(path) != "faults.json" {
		return report.Run(ReadRun(t, path))
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	faults, err := result.ReadFaults(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return report.Faults(faults)
}

// ReadRun reads a run that is stored in a file.
func ReadRun(t testing.TB, path string) *result.Run {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := result.ReadRun(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return run
}

// Drawn is a document as a page.
func Drawn(t testing.TB, d *report.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

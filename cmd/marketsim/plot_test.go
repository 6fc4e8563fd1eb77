package main

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

func TestPlotListsFigures(t *testing.T) {
	for _, path := range []string{stored, filepath.Dir(stored)} {
		o := marketsim(t, "plot", path, "--list").exits(t, exitFine)
		if !strings.HasPrefix(o.stdout, "throughput  Purchases a second\ncost ") || o.stderr != "" {
			t.Errorf("plot %s --list prints\n%s%s", path, o.stdout, o.stderr)
		}
	}
}

// TestPlot draws the first figure, and the one that is named, in the format that the file's name says.
func TestPlot(t *testing.T) {
	dir := t.TempDir()
	first, named, picture := filepath.Join(dir, "a.svg"), filepath.Join(dir, "b.SVG"), filepath.Join(dir, "c.png")
	marketsim(t, "plot", stored, "-o", first).exits(t, exitFine).says(t, "drawn in "+first+": Purchases a second\n")
	marketsim(t, "plot", stored, "--figure", "fairness", "--output", named).exits(t, exitFine)
	marketsim(t, "plot", stored, "-o", picture).exits(t, exitFine)
	if svg := read(t, first); !strings.Contains(svg, "<title>Purchases a second</title>") {
		t.Errorf("the first figure is\n%.300s", svg)
	}
	svg := read(t, named)
	if !strings.Contains(svg, "<title>Does every buyer get its turn?</title>") {
		t.Errorf("the figure that was named is\n%.300s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(strings.NewReader(read(t, picture)))
	if err != nil || img.Bounds().Dx() != pngWidth {
		t.Errorf("the PNG: %v, %v", img.Bounds(), err)
	}
}

// TestPlotOfInterruptedRun draws what is there, and says so.
func TestPlotOfInterruptedRun(t *testing.T) {
	run, err := result.ReadRun(strings.NewReader(read(t, stored)))
	if err != nil {
		t.Fatal(err)
	}
	run.Status, run.Rows = result.Interrupted, run.Rows[:2]
	var b bytes.Buffer
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, sweepFile), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "x.svg")
	marketsim(t, "plot", dir, "-o", file).exits(t, exitFine).says(t, "Purchases a second (interrupted: what was measured until then)")
	run.Rows = []result.Row{}
	b.Reset()
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, runFile), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	marketsim(t, "plot", dir, "-o", file).exits(t, exitUsage).says(t, "holds no numbers that could be drawn")
}

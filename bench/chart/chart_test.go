package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/chart"
	"github.com/marketsim/marketsim/bench/result"
)

// picture is what a reader of an SVG gets.
type picture struct {
	title, desc string
	texts       []string
	paths       int
}

// parse reads an SVG and checks what must hold of every one.
func parse(t rapid.TB, f chart.Figure) picture {
	t.Helper()
	var svg bytes.Buffer
	if err := f.SVG(&svg); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	p, err := decode(svg.Bytes())
	if err != nil {
		t.Fatalf("%s is not well-formed: %v\n%s", f.Name, err, svg.String())
	}
	if wrong := regexp.MustCompile(`NaN|Inf`).FindString(drawing(svg.String())); wrong != "" {
		t.Errorf("%s holds %s", f.Name, wrong)
	}
	for _, want := range []string{`role="img"`, "viewBox=", "prefers-color-scheme:dark", "system-ui"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%s has no %s", f.Name, want)
		}
	}
	if f.Title == "" || f.Alt == "" || p.title != f.Title || p.desc != f.Alt {
		t.Errorf("%s has the title %q and the description %q, and not %q and %q", f.Name, p.title, p.desc, f.Title, f.Alt)
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(f.Name) {
		t.Errorf("the name %q is not fit for a file and an ID", f.Name)
	}
	return p
}

// drawing is an SVG without what stands in texts, which may be anything.
func drawing(svg string) string {
	for _, element := range []string{"title", "desc", "text"} {
		svg = regexp.MustCompile(`(?s)(<`+element+`[^>]*>).*?</`+element+`>`).ReplaceAllString(svg, "$1")
	}
	return svg
}

func decode(svg []byte) (p picture, err error) {
	d := xml.NewDecoder(bytes.NewReader(svg))
	var open []string
	for {
		token, err := d.Token()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			if token.Name.Local == "path" {
				p.paths++
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) == 0 {
				continue
			}
			switch open[len(open)-1] {
			case "title":
				p.title += string(token)
			case "desc":
				p.desc += string(token)
			case "text":
				p.texts = append(p.texts, string(token))
			}
		}
	}
}

// TestStoredRuns draws every run that is stored, in both formats.
func TestStoredRuns(t *testing.T) {
	var runs int
	err := filepath.WalkDir("../../results", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "run.json" {
			return err
		}
		runs++
		figures := chart.Of(read(t, path))
		if len(figures) == 0 {
			t.Errorf("%s has no figure", path)
		}
		var names []string
		for _, f := range figures {
			if slices.Contains(names, f.Name) {
				t.Errorf("%s has two figures %s", path, f.Name)
			}
			names = append(names, f.Name)
			if p := parse(t, f); p.paths < 5 || len(p.texts) < 5 {
				t.Errorf("%s: %s has %d paths and the texts %q", path, f.Name, p.paths, p.texts)
			}
		}
		return nil
	})
	if err != nil || runs < 10 {
		t.Fatalf("%d runs: %v", runs, err)
	}
}

func read(t testing.TB, path string) *result.Run {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	run, err := result.ReadRun(file)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// numbers are what a file may hold where a measurement should be.
var numbers = []float64{0, 1, 2.5, 17, 1e-320, 1e-12, 1e12, 1e300, math.MaxFloat64, -1, math.NaN(), math.Inf(1), math.Inf(-1)}

// fill makes a value of anything, to so many levels: texts with markup and control characters, absurd numbers, nil and
// empty lists among it.
func fill(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.SampledFrom(numbers), rapid.Float64()).Draw(t, "float"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 5, 1000, math.MaxInt64, math.MinInt64}),
			rapid.Int64()).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom([]string{"", "fine", "<b>&\"'</text>", "\x00\x1b\xff", "5x5",
			strings.Repeat("wide", 300), `style="fill:#0068A8"`, "6-1"}), rapid.String()).Draw(t, "string"))
	case reflect.Pointer:
		if depth > 0 && rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i), depth)
			}
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e, depth-1)
			v.Set(reflect.Append(v, e))
		}
	}
}

// TestAnything: whatever a run holds, each of its figures is a picture.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var run result.Run
		fill(t, reflect.ValueOf(&run).Elem(), 5)
		for i := range run.Rows { // or hardly two would belong together
			r := &run.Rows[i]
			if rapid.Bool().Draw(t, "known") {
				r.Strategy, r.Sellers, r.Buyers, r.Workload = "fine", 5, 5, result.Workload{}
			}
			if rapid.Bool().Draw(t, "closed") {
				r.Open = nil
			}
		}
		run.Manifest.Config.Trials = rapid.IntRange(-1, 3).Draw(t, "trials")
		names := map[string]bool{}
		for _, f := range chart.Of(&run) {
			if names[f.Name] {
				t.Errorf("two figures %s", f.Name)
			}
			names[f.Name] = true
			if p := parse(t, f); p.paths < 2 || len(p.texts) < 3 {
				t.Errorf("%s is empty: %+v", f.Name, p)
			}
		}
	})
}

func TestPNG(t *testing.T) {
	f := chart.Of(read(t, "../../results/2026-11-22-redis-7.0.15/run.json"))[0]
	var b bytes.Buffer
	if err := f.PNG(&b, 720); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil || img.Bounds().Dx() != 720 || img.Bounds().Dy() < 720 {
		t.Errorf("%v, %v", img.Bounds(), err)
	}
	for _, pixels := range []int{-1, 0, 99, 1 << 20} {
		if err := f.PNG(io.Discard, pixels); err == nil || !strings.Contains(err.Error(), "cannot have this size") {
			t.Errorf("%d pixels: %v", pixels, err)
		}
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestWriteFails(t *testing.T) {
	f := chart.Of(read(t, "../../results/2026-11-22-redis-7.0.15/run.json"))[0]
	for format, err := range map[string]error{"SVG": f.SVG(full{}), "PNG": f.PNG(full{}, 200)} {
		if err == nil || !strings.Contains(fmt.Sprint(err), "the disk is full") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// TestMarkupIsText: a name that looks like markup, a style or a script is a name.
func TestMarkupIsText(t *testing.T) {
	run := read(t, "../../bench/report/testdata/run.json")
	for i, name := range []string{`<script>alert(1)</script>`, `style="fill:#0068A8"`, `&lt;"'`, "\x1b[2J"} {
		run.Rows[i].Strategy = name
	}
	for _, f := range chart.Of(run) {
		p := parse(t, f)
		all := strings.Join(p.texts, " ")
		for i, want := range []string{`<script>alert(1)</script>`, `style="fill:#0068A8"`, `&lt;"'`, "?[2J"} {
			if f.Name == "tries" && i > 0 { // only the first stored them
				continue
			}
			if !strings.Contains(all, want) {
				t.Errorf("%s does not show %s: %s", f.Name, want, all)
			}
		}
	}
}

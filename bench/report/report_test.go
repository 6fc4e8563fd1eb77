package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file, format string
		res          *bench.Result
	}{
		{"run.txt", "text", complete()},
		{"run.md", "markdown", complete()},
		{"run.csv", "csv", complete()},
		{"run.json", "json", complete()},
		{"reproduction.txt", "text", reproduced()},
		{"reproduction.md", "markdown", reproduced()},
		{"incomplete.txt", "text", partial()},
		{"incomplete.md", "markdown", partial()},
		{"violation.txt", "text", violated()},
		{"violation.md", "markdown", violated()},
		{"embedded.txt", "text", embedded()},
	} {
		t.Run(c.file, func(t *testing.T) {
			var b bytes.Buffer
			if err := Write(&b, c.format, c.res); err != nil {
				t.Fatal(err)
			}
			golden(t, c.file, b.Bytes())
		})
	}
}

func TestGoldenColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	var b bytes.Buffer
	if err := Text(&b, violated(), Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "color.txt", b.Bytes())
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -update rewrites it. Got:\n%s", path, got)
	}
}

// TestColorKeepsAlignment removes the colors again: what is left must be the text without any.
func TestColorKeepsAlignment(t *testing.T) {
	strip := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "")
	for _, res := range []*bench.Result{reproduced(), violated(), partial()} {
		var plain, colored bytes.Buffer
		if err := Text(&plain, res, Options{}); err != nil {
			t.Fatal(err)
		}
		t.Setenv("NO_COLOR", "")
		if err := Text(&colored, res, Options{Color: true}); err != nil {
			t.Fatal(err)
		}
		if strip.Replace(colored.String()) != plain.String() {
			t.Errorf("color moved something:\n%s", colored.String())
		}
		if !strings.Contains(colored.String(), "\x1b[3") {
			t.Error("no color")
		}
		t.Setenv("NO_COLOR", "1")
		colored.Reset()
		if err := Text(&colored, res, Options{Color: true}); err != nil {
			t.Fatal(err)
		}
		if colored.String() != plain.String() {
			t.Error("NO_COLOR is set and there is color")
		}
	}
}

func TestTextWidth(t *testing.T) {
	for _, res := range []*bench.Result{complete(), reproduced(), partial(), embedded()} {
		var b bytes.Buffer
		if err := Text(&b, res, Options{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 130+len("\n") || strings.TrimRight(line, " \n")+"\n" != line {
				t.Errorf("%d columns, or spaces at the end: %q", len(line)-1, line)
			}
		}
	}
}

// TestTablesCutNothing splits drawn tables into cells again: tablewriter must not shorten, wrap or drop one.
func TestTablesCutNothing(t *testing.T) {
	between := regexp.MustCompile(` {2,}| *\| *`)
	for _, res := range []*bench.Result{complete(), reproduced(), partial(), violated()} {
		res.Rows[0].Strategy = "m\u00e9tier:\u8cb7" // letters that take two bytes, and two columns
		for _, s := range append(reproduction(res), runSection(res), detailSection(res)) {
			for _, p := range []painter{textPainter{}, markdownPainter{}} {
				var b bytes.Buffer
				if err := p.section(&b, section{table: s.table}); err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
				lines = lines[len(lines)-len(s.table.rows):]
				for i, row := range s.table.rows {
					var want, got []string
					for _, c := range row {
						if c.text != "" {
							want = append(want, c.text)
						}
					}
					for _, text := range between.Split(lines[i], -1) {
						if text = strings.Trim(text, "*\\"); text != "" {
							got = append(got, text)
						}
					}
					if strings.Join(got, "|") != strings.ReplaceAll(strings.Join(want, "|"), "*", "") {
						t.Errorf("drawn %q, want %q", got, want)
					}
				}
			}
		}
	}
}

func TestWriteUnknownFormat(t *testing.T) {
	err := Write(&bytes.Buffer{}, "pdf", complete())
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "text, markdown, csv, json") {
		t.Errorf("%v; want ErrFormat with the known formats", err)
	}
}

// failing is a writer that is full.
type failing struct{}

var errFull = errors.New("disk full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriteReportsErrors(t *testing.T) {
	for _, format := range Formats() {
		if err := Write(failing{}, format, complete()); !errors.Is(err, errFull) {
			t.Errorf("%s: %v, want %v", format, err, errFull)
		}
	}
}

func TestNoRows(t *testing.T) {
	for _, res := range []*bench.Result{
		{Schema: bench.Schema, Status: bench.Interrupted},
		{Schema: bench.Schema, Status: bench.Complete, Claims: bench.Judge(bench.Manifest{}, nil),
			Manifest: bench.Manifest{Config: bench.RunConfig{Reproduces: []string{"6-1", "6-1", "9-9"}}}},
	} {
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := Write(&b, format, res); err != nil || b.Len() == 0 {
				t.Errorf("%s: %v, %d bytes", format, err, b.Len())
			}
			if n := strings.Count(b.String(), "Table 6-1"); n > 1 {
				t.Errorf("%s: table 6-1 is drawn %d times", format, n)
			}
		}
	}
}

// TestRoundTrip reads a result back and writes it again.
func TestRoundTrip(t *testing.T) {
	for _, res := range []*bench.Result{complete(), reproduced(), partial(), violated(), embedded()} {
		var first, second bytes.Buffer
		if err := JSON(&first, res); err != nil {
			t.Fatal(err)
		}
		again, err := bench.ReadResult(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := JSON(&second, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Error("the result changed on its way through JSON")
		}
	}
}

// TestCSVHasEveryScalar sets every number and text of a row to a value of its own, and looks for each in the CSV.
func TestCSVHasEveryScalar(t *testing.T) {
	row := bench.Row{Audit: bench.Audit{Done: true}}
	want := map[string]string{} // value by field
	fillScalars(reflect.ValueOf(&row).Elem(), "Row", want)
	delete(want, "Row.Histograms.Purchase") // too long for a table
	delete(want, "Row.Histograms.List")
	var b bytes.Buffer
	if err := CSV(&b, &bench.Result{Rows: []bench.Row{row}}); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range want {
		if !slices.Contains(records[1], value) {
			t.Errorf("the CSV lacks %s", field)
		}
	}
	names := slices.Sorted(slices.Values(records[0]))
	if len(slices.Compact(names)) != len(records[0]) {
		t.Error("two columns have the same name")
	}
}

// fillScalars gives each number and text below v a value of its own, and notes it in want.
func fillScalars(v reflect.Value, path string, want map[string]string) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+"."+v.Type().Field(i).Name
		n := 1000 + len(want)
		switch f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(n))
		case reflect.Float64:
			f.SetFloat(float64(n))
		case reflect.String:
			f.SetString(strconv.Itoa(n))
		case reflect.Struct:
			fillScalars(f, name, want)
			continue
		default: // lists, maps and verdicts
			continue
		}
		want[name] = strconv.Itoa(n)
	}
}

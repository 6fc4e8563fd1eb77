package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file, format string
		doc          *Document
	}{
		{"run.txt", Text, Run(complete())},
		{"run.md", Markdown, Run(complete())},
		{"run.csv", CSV, Run(complete())},
		{"run.json", JSON, Run(complete())},
		{"reproduction.txt", Text, Run(reproduced())},
		{"reproduction.md", Markdown, Run(reproduced())},
		{"rounds.txt", Text, Run(inRounds(9))},
		{"rounds.md", Markdown, Run(inRounds(9))},
		{"rounds-interrupted.txt", Text, Run(inRounds(4))},
		{"so-far.txt", Text, SoFar(inRounds(4))},
		{"incomplete.txt", Text, Run(partial())},
		{"incomplete.md", Markdown, Run(partial())},
		{"violation.txt", Text, Run(violated())},
		{"violation.md", Markdown, Run(violated())},
		{"embedded.txt", Text, Run(embedded())},
		{"open.txt", Text, Run(openRun())},
		{"open.md", Markdown, Run(openRun())},
		{"sweep.txt", Text, Run(swept())},
		{"sweep.md", Markdown, Run(swept())},
		{"sweep-two-axes.txt", Text, Run(sweptTwice())},
		{"sweep-cut-short.txt", Text, Run(sweptInPart())},
		{"faults.txt", Text, Faults(everyVerdict())},
		{"faults.md", Markdown, Faults(everyVerdict())},
		{"faults-cut-short.txt", Text, Faults(cutShort())},
		{"faults-cut-short.md", Markdown, Faults(cutShort())},
		{"faults-cut-short.csv", CSV, Faults(cutShort())},
	} {
		t.Run(c.file, func(t *testing.T) { golden(t, c.file, []byte(drawn(t, c.doc, c.format, Options{}))) })
	}
}

func TestGoldenColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	golden(t, "color.txt", []byte(drawn(t, Run(violated()), Text, Options{Color: true})))
}

// drawn is a document in a format.
func drawn(t *testing.T, d *Document, format string, opts Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b, format, opts); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.String()
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
	for _, d := range []*Document{Run(reproduced()), Run(violated()), Run(partial()), Faults(everyVerdict())} {
		plain := drawn(t, d, Text, Options{})
		t.Setenv("NO_COLOR", "")
		colored := drawn(t, d, Text, Options{Color: true})
		if strip.Replace(colored) != plain {
			t.Errorf("color moved something:\n%s", colored)
		}
		if !strings.Contains(colored, "\x1b[3") {
			t.Error("no color")
		}
		for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
			before := os.Getenv(name)
			t.Setenv(name, value)
			if drawn(t, d, Text, Options{Color: true}) != plain {
				t.Errorf("%s=%s, and there is color", name, value)
			}
			t.Setenv(name, before)
		}
	}
}

// TestSeveral draws documents of one kind and of two.
func TestSeveral(t *testing.T) {
	one := Records(nil, [][]string{{"lock", "source"}, {"setnx", "a\x1bb"}}, nil)
	two := Records([]string{"drawn \x1b by hand"}, [][]string{{"lock", "source"}, {"queue", "c,d"}}, []int{1})
	both := Several([]string{"x/1", "x/2"}, []*Document{one, two})
	for format, want := range map[string]string{
		Text:     "x/1:\nlock   source\n-------------\nsetnx  a?b\n\nx/2:\ndrawn ? by hand\n",
		CSV:      "file,lock,source\nx/1,setnx,a?b\nx/2,queue,\"c,d\"\n",
		JSON:     "[\n[\n  {\n    \"lock\": \"setnx\",\n    \"source\": \"a\\u001bb\"\n  }\n]\n,\n[\n  1\n]\n]\n",
		Markdown: "# x/1\n\n\n| lock  | source |\n|:------|:-------|\n| setnx | a?b    |\n\n# x/2\n\n\n| lock  | source |\n|:------|:-------|\n| queue | c,d    |\n",
	} {
		if got := drawn(t, both, format, Options{}); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
	mixed := Several([]string{"a", "b"}, []*Document{one, Run(complete())})
	if err := mixed.Write(io.Discard, CSV, Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("records of two kinds as one CSV: %v", err)
	}
}

func TestTextWidth(t *testing.T) {
	long := complete()
	long.Rows[0].Strategy = "fine:set-px+watchdog:ttl=500ms:renew=100ms"
	for _, d := range []*Document{
		Run(complete()), Run(reproduced()), Run(partial()), Run(embedded()), Run(violated()), Run(long),
		Faults(everyVerdict()), Faults(cutShort()),
	} {
		for line := range strings.Lines(drawn(t, d, Text, Options{})) {
			if utf8.RuneCountInString(line) > Width+len("\n") || strings.TrimRight(line, " \n")+"\n" != line {
				t.Errorf("%d columns, or spaces at the end: %q", len(line)-1, line)
			}
		}
	}
	if text := drawn(t, Run(long), Text, Options{}); !strings.Contains(text, "(No room for: p50, retries/purchase, retries") {
		t.Errorf("nothing says what was left out:\n%s", text)
	}
}

// TestLongLines: a line that is too wide is broken at spaces, says the same, and keeps its columns.
func TestLongLines(t *testing.T) {
	long := "  items    violated  " + strings.Repeat("größer als 1, ", 20) + strings.Repeat("x", Width) + " end"
	text := drawn(t, Records([]string{"short  line", long}, [][]string{{"lock"}}, nil), Text, Options{})
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != "short  line" || !strings.HasPrefix(lines[1], "  items    violated  größer") || len(lines) < 6 {
		t.Errorf("drawn as\n%s", text)
	}
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, "    ") || utf8.RuneCountInString(line) > Width && strings.Contains(line[4:], " ") {
			t.Errorf("%q is not indented, or too wide", line)
		}
	}
	if got := strings.Fields(strings.Join(lines[1:], " ")); !slices.Equal(got, strings.Fields(long)) {
		t.Errorf("it says %q", got)
	}
}

// TestTablesCutNothing splits drawn tables into cells again: tablewriter must not shorten, wrap or drop one.
func TestTablesCutNothing(t *testing.T) {
	between := regexp.MustCompile(` {2,}| *\| *`)
	for _, res := range []*result.Run{complete(), reproduced(), partial(), violated(), inRounds(9)} {
		res.Rows[0].Strategy = "m\u00e9tier:\u8cb7" // letters that take two bytes, and two columns
		for _, s := range append(reproduction(res), section{table: rowTable(res, lines(res), rowsTable)},
			section{table: rowTable(res, lines(res), detailsTable)}) {
			for _, draw := range []func(*bytes.Buffer, *table) error{textPainter{}.table, markdownTable} {
				var b bytes.Buffer
				if err := draw(&b, s.table); err != nil {
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
	err := Run(complete()).Write(&bytes.Buffer{}, "pdf", Options{})
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
		for _, d := range []*Document{Run(complete()), Faults(everyVerdict())} {
			if err := d.Write(failing{}, format, Options{}); !errors.Is(err, errFull) {
				t.Errorf("%s: %v, want %v", format, err, errFull)
			}
		}
	}
}

func TestNoRows(t *testing.T) {
	for _, res := range []*result.Run{
		{Schema: result.Schema, Status: result.Interrupted},
		{Schema: result.Schema, Status: result.Complete, Claims: bench.Judge(&result.Run{}),
			Manifest: result.Manifest{Config: result.Config{Reproduces: []string{"6-1", "6-1", "9-9"}}}},
	} {
		for _, format := range Formats() {
			text := drawn(t, Run(res), format, Options{})
			if text == "" {
				t.Errorf("%s: nothing is drawn", format)
			}
			if n := strings.Count(text, "Table 6-1"); n > 1 {
				t.Errorf("%s: table 6-1 is drawn %d times", format, n)
			}
		}
	}
}

// TestRoundTrip reads a result back and writes it again.
func TestRoundTrip(t *testing.T) {
	for _, res := range []*result.Run{complete(), reproduced(), partial(), violated(), embedded()} {
		first := drawn(t, Run(res), JSON, Options{})
		again, err := result.ReadRun(strings.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		if drawn(t, Run(again), JSON, Options{}) != first {
			t.Error("the result changed on its way through JSON")
		}
	}
}

// TestAbsentIsNotZero: what an older run did not record is drawn as "-", in the CSV and in the tables.
func TestAbsentIsNotZero(t *testing.T) {
	var absent *int64
	zero := new(int64)
	for _, c := range []struct {
		value       any
		exact, cell string
	}{{absent, none, none}, {nil, none, none}, {zero, "0", "0"}, {int64(1234), "1234", "1,234"}, {0.5, "0.5", "0.50"}} {
		if exact(c.value) != c.exact || readable(c.value).text != c.cell {
			t.Errorf("%v is drawn as %q and %q, want %q and %q", c.value, exact(c.value), readable(c.value).text, c.exact,
				c.cell)
		}
	}
	for _, c := range latency("new_ms", func(row) *result.Latency { return nil }) {
		if got := exact(c.value(row{})) + readable(c.shown(row{})).text; got != none+none {
			t.Errorf("%s of a run without it is drawn as %q", c.name, got)
		}
	}
}

// TestImportsNothingThatServes: a report is drawn from what is stored, without anything that talks to a server.
func TestImportsNothingThatServes(t *testing.T) {
	const module = "github.com/marketsim/marketsim/"
	for pkg, may := range map[string][]string{
		"bench/report":  {"bench/report", "bench/compare", "bench/result", "results/reference"},
		"bench/compare": {"bench/compare", "bench/result"},
		"bench/result":  {"bench/result"},
	} {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if name, ours := strings.CutPrefix(dep, module); ours && !slices.Contains(may, name) {
				t.Errorf("%s imports %s", pkg, name)
			}
			if strings.HasPrefix(dep, "github.com/redis/") || strings.HasPrefix(dep, "go.etcd.io/") {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
}

// TestCSVHasEveryScalar sets every number and text of a row to a value of its own, and looks for each in the CSV.
func TestCSVHasEveryScalar(t *testing.T) {
	row := result.Row{Audit: result.Audit{Done: true}}
	want := map[string]string{} // value by field
	fillScalars(reflect.ValueOf(&row).Elem(), "Row", want)
	maps.DeleteFunc(want, func(field, _ string) bool {
		return strings.HasPrefix(field, "Row.Histograms.") // too long for a table
	})
	text := drawn(t, Run(&result.Run{Rows: []result.Row{row}}), CSV, Options{})
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
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
	n := 1000 + len(want)
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillScalars(v.Elem(), path, want)
		return
	case reflect.Struct:
		for i := range v.NumField() {
			fillScalars(v.Field(i), path+"."+v.Type().Field(i).Name, want)
		}
		return
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.String:
		v.SetString(strconv.Itoa(n))
	default: // lists, maps and verdicts
		return
	}
	want[path] = strconv.Itoa(n)
}

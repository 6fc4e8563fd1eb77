package view_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/fatih/color"
	"github.com/google/go-cmp/cmp"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// docs are what the golden files show, by their names.
func docs() map[string]*view.Doc {
	return map[string]*view.Doc{
		"reproduce": view.Run(reproduced()),
		"compare":   view.Run(compared()),
		"limits":    view.Run(limited()),
		"metrics":   view.Run(comparedByMetrics()),
		"sweep":     view.Run(swept()),
		"open":      view.Run(open()),
		"masters":   view.Run(onMasters()),
		"faults":    view.Faults(faults()),
	}
}

// docsInOrder are those of docs, by their names.
func docsInOrder() (all []*view.Doc) {
	named := docs()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// golden compares what was drawn with a file. With -update it writes the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		testkit.Succeeds(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; 'go test ./internal/view -update' writes it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is drawn otherwise (-stored +drawn); "+
			"'go test ./internal/view -update' writes it:\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	for name, d := range docs() {
		t.Run(name, func(t *testing.T) {
			var text, markdown bytes.Buffer
			testkit.Succeeds(t, view.Text(&text, d))
			golden(t, name+".txt", text.Bytes())
			testkit.Succeeds(t, view.Markdown(&markdown, d))
			golden(t, name+".md", markdown.Bytes())
		})
	}
}

// inColor makes what is drawn for a terminal colored, until the test ends.
func inColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	before := color.NoColor
	t.Cleanup(func() { color.NoColor = before })
	color.NoColor = false
}

// TestText: no line of a text is wider than it may be, none ends in a space, and colors
// change nothing but the color.
func TestText(t *testing.T) {
	for name, d := range docs() {
		var text, colored, plain bytes.Buffer
		inColor(t)
		err := errors.Join(view.Text(&text, d), view.Terminal(&colored, d, view.Width))
		t.Setenv("NO_COLOR", "1")
		testkit.Succeeds(t, errors.Join(err, view.Terminal(&plain, d, view.Width)))

		for line := range strings.Lines(text.String()) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > view.Width || strings.HasSuffix(line, " ") {
				t.Errorf("%s has the line %q", name, line)
			}
		}

		if plain.String() != text.String() {
			t.Errorf("%s without color:\n%s", name, cmp.Diff(text.String(), plain.String()))
		}

		got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored.String(), "")
		if got != text.String() {
			t.Errorf("%s in color:\n%s", name, cmp.Diff(text.String(), got))
		}

		for word, color := range map[string]string{
			"FAILED":                   "\x1b[31m",
			"ok":                       "\x1b[32m",
			"sold twice, 1.5 leases !": "\x1b[31m",
			"no harm, no lease":        "\x1b[32m",
			"no harm, never":           "\x1b[33m",
			"never while observed":     "\x1b[33m",
		} {
			cell := regexp.MustCompile(`  ` + regexp.QuoteMeta(word) + `(  |$)`)
			if cell.MatchString(text.String()) && !strings.Contains(colored.String(), color+word) {
				t.Errorf("%s: %q is not colored", name, word)
			}
		}
	}
}

// TestNames: a cell has a color because of what it tells, and not because of its words.
func TestNames(t *testing.T) {
	inColor(t)
	table := view.NewTable("FAILED", "ok")
	table.Add("sold twice !", "no harm, never")
	var b bytes.Buffer
	d := &view.Doc{Blocks: []view.Block{{Table: table}}}
	testkit.Succeeds(t, errors.Join(view.Terminal(&b, d, 80), view.Markdown(&b, d)))
	if strings.ContainsAny(b.String(), "\x1b*") {
		t.Errorf("names are emphasized: %q", b.String())
	}
}

// TestAgain: what is compared with itself is told in words, and what other
// programs read has its name.
func TestAgain(t *testing.T) {
	run := compared()
	run.Rows[2].Warn(result.Evicted, 1, "")
	run.Rows[3].Strategy = "fine#3"

	told, read := bytes.NewBufferString(view.Line(run.Rows[2])), new(bytes.Buffer)
	err := errors.Join(view.CSV(read, view.NamedRun{Run: run}), view.Gobench(read, run))
	testkit.Succeeds(t, errors.Join(err, view.HTML(told, view.Run(run))))

	if text := told.String(); strings.Contains(text, "fine#") ||
		strings.Count(text, "the same again (A/A)") < 10 {
		t.Errorf("it is told as\n%s", text)
	}

	if text := read.String(); strings.Contains(text, "again") ||
		!strings.Contains(text, "strategy=fine#2/") || !strings.Contains(text, ",fine#2,") {
		t.Errorf("other programs read\n%s", text)
	}
}

// TestNarrow: on 80 columns a table is cut in several, and no name, number or
// harm is broken into lines.
func TestNarrow(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for name, d := range docs() {
		var narrow, wide bytes.Buffer
		testkit.Succeeds(t, errors.Join(view.Terminal(&narrow, d, 80), view.Terminal(&wide, d, 500)))

		for line := range strings.Lines(narrow.String()) {
			if utf8.RuneCountInString(line) > 80+1 {
				t.Errorf("%s is wider than 80 columns: %q", name, line)
			}
		}

		for _, block := range slices.DeleteFunc(d.Blocks, func(b view.Block) bool {
			return b.Table == nil
		}) {
			for _, row := range block.Table.Rows {
				for c, number := range block.Table.Numeric() { // the first column names the row
					whole := c == 0 || number || row[c].Tone == "bad"
					if whole && !strings.Contains(narrow.String(), row[c].Text) {
						t.Errorf("%s breaks %q", name, row[c].Text)
					}
				}
			}
		}

		if all := strings.Count(wide.String(), "\nrow "); all > 0 &&
			strings.Count(narrow.String(), "\nrow ") <= all {
			t.Errorf("%s has no more than the %d tables of a wide terminal", name, all)
		}
	}
}

// TestNothingIsDecided: a report begins with why, and rates that cannot be
// compared are none.
func TestNothingIsDecided(t *testing.T) {
	differs, unfit := compared(), compared()
	for i := range differs.Rows {
		if r := &differs.Rows[i]; r.Strategy == "fine#2" {
			r.Bought *= 2
		}
		unfit.Rows[i].Audit.OK = unfit.Rows[i].Strategy != "lua"
	}

	want := "Nothing is decided: fine was faster than itself at 5x5."
	if got := view.Run(differs).Findings[0]; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	var told []string
	for _, row := range view.ComparisonTable(compare.Of(unfit)).Rows {
		for _, cell := range row {
			told = append(told, cell.Text)
		}
	}
	if all := strings.Join(told, ","); !strings.Contains(all, ",-,-,-,-,0,lua failed its audit") {
		t.Error(all)
	}
}

// TestLeftOver: each format that has the rows tells what was left over from the warm-up.
func TestLeftOver(t *testing.T) {
	const told = "105 orders that fell due in the warm-up"
	for want, draw := range map[string]func(*bytes.Buffer, *runs.Run) error{
		told:                          func(b *bytes.Buffer, r *runs.Run) error { return view.HTML(b, view.Run(r)) },
		",left_over":                  func(b *bytes.Buffer, r *runs.Run) error { return view.CSV(b, view.NamedRun{Run: r}) },
		",105":                        func(b *bytes.Buffer, r *runs.Run) error { return view.CSV(b, view.NamedRun{Run: r}) },
		`{"code":"left-over","value"`: func(b *bytes.Buffer, r *runs.Run) error { return r.Write(b) },
		`"left_over":105`:             func(b *bytes.Buffer, r *runs.Run) error { return r.Write(b) },
		"610.5 purchases/s":           func(b *bytes.Buffer, r *runs.Run) error { return view.Gobench(b, r) },
	} {
		var b bytes.Buffer
		if err := draw(&b, open()); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, and %q is not in\n%s", err, want, b.String())
		}
	}
}

// TestHostile: what a file holds moves no cursor and is read as markup by nothing.
func TestHostile(t *testing.T) {
	for name, draw := range map[string]func(*bytes.Buffer, *runs.Run) error{
		"text":     func(b *bytes.Buffer, r *runs.Run) error { return view.Text(b, view.Run(r)) },
		"markdown": func(b *bytes.Buffer, r *runs.Run) error { return view.Markdown(b, view.Run(r)) },
		"html":     func(b *bytes.Buffer, r *runs.Run) error { return view.HTML(b, view.Run(r)) },
		"csv":      func(b *bytes.Buffer, r *runs.Run) error { return view.CSV(b, view.NamedRun{Name: "\x1b[2J", Run: r}) },
		"gobench":  func(b *bytes.Buffer, r *runs.Run) error { return view.Gobench(b, r) },
		"line": func(b *bytes.Buffer, r *runs.Run) error {
			b.WriteString(view.Line(r.Rows[0]))
			return nil
		},
	} {
		var b bytes.Buffer
		testkit.Succeeds(t, draw(&b, hostile()))

		control := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
		if i := strings.IndexFunc(b.String(), control); i >= 0 {
			t.Errorf("%s holds a control character: %q", name, b.String()[max(0, i-20):i+20])
		}

		if name == "html" && regexp.MustCompile(`<script|<img|<b>`).MatchString(b.String()) {
			t.Errorf("%s is read as markup:\n%s", name, b.String())
		}
		if name == "markdown" && regexp.MustCompile("[^\\\\](<[a-z]|`x)").MatchString(b.String()) {
			t.Errorf("%s is read as markup:\n%s", name, b.String())
		}
	}
}

// TestWords: every code that a row may have, and every verdict of a finding, has words.
func TestWords(t *testing.T) {
	source := testkit.Must(os.ReadFile("../../bench/result/row.go"))(t)
	codes := regexp.MustCompile(` Code = "([^"]+)"`).FindAllSubmatch(source, -1)
	if len(codes) < 14 {
		t.Fatalf("only %d codes were found", len(codes))
	}

	for _, code := range codes {
		r := open()
		// open has a warning of its own there.
		r.Rows[1].Warnings = nil
		r.Rows[0].Warn(result.Code(code[1]), 0.25, "")

		var b bytes.Buffer
		testkit.Succeeds(t, view.Text(&b, view.Run(r)))
		if strings.Contains(b.String(), "warning "+string(code[1])) ||
			strings.Contains(b.String(), "%!") ||
			!strings.Contains(b.String(), "\nfine 5x5 at 200/s: ") {
			t.Errorf("%s has no words:\n%s", code[1], b.String())
		}
	}

	seen := map[string]bool{}
	for _, kept := range verify.KeptOuts() {
		text := (findings.Finding{Harm: verify.NoHarm, KeptOut: kept}).Outcome()
		if seen[text] || strings.HasSuffix(text, ", ") {
			t.Errorf("%s is told as %q", kept, text)
		}
		seen[text] = true
	}
}

// TestNumber: three digits, and never a 0 that is none.
func TestNumber(t *testing.T) {
	for want, of := range map[string]struct {
		v    float64
		unit runs.Unit
	}{
		"0":       {0, ""},
		"<0.001":  {0.0001, ""},
		"0.044":   {0.0441, ""},
		"2.96":    {2.963, ""},
		"12.3":    {12.34, ""},
		"100":     {99.96, ""},
		"1,234":   {1234.4, runs.PerSecond},
		"1e+20":   {1e20, ""},
		"12.3 ms": {12.34, runs.Milliseconds},
		"45.6%":   {0.4561, runs.Percent},
		"2 us":    {2, runs.Microseconds},
		"-":       {math.NaN(), runs.Milliseconds},
		"10.0":    {9.996, ""},
		"0.10":    {0.0996, ""},
	} {
		if got := view.Number(of.v, of.unit); got != want {
			t.Errorf("%v %s is written %q, want %q", of.v, of.unit, got, want)
		}
	}

	if got := view.Number(math.Inf(1), ""); got != "-" {
		t.Errorf("infinity is written %q", got)
	}
}

// TestFindings: a run that was cut short or measured on an embedded server says so
// first, a violation before all.
func TestFindings(t *testing.T) {
	for want, change := range map[string]func(r *runs.Run){
		"All audits passed: money and items are right in 54 rows.": func(r *runs.Run) {
			r.Manifest.Config.Margin = nil
		},
		"AUDIT FAILED in 1 of 54 rows: items or money went wrong.": func(r *runs.Run) {
			r.Rows[3].Audit.OK = false
		},
		"The run was incomplete, because the environment failed after 53 of 54 rows.": func(r *runs.Run) {
			r.Status, r.Rows = stored.Incomplete, r.Rows[:53]
		},
		"The run was interrupted by the user after 52 of 54 rows.": func(r *runs.Run) {
			r.Status, r.Rows = stored.Interrupted, r.Rows[:53]
			r.Rows[52].Status = stored.Interrupted // which has begun
		},
		"No row was measured.":                       func(r *runs.Run) { r.Rows = nil },
		"Not to be judged: lua 5x5 was not audited.": func(r *runs.Run) { r.Rows[1].Audit.Done = false },
		"The server was embedded miniredis: these are not Redis's numbers.": func(r *runs.Run) {
			r.Manifest.Backend = "embedded"
		},
		"Not decided: other processes took 43 to 61% of this machine's time in 54 of 54 rows.": func(r *runs.Run) {
			for i := range r.Rows {
				r.Rows[i].Warn(result.Busy, 0.43+0.18*float64(i%2), "")
			}
		},
		"Left out of what is judged: rounds in which other processes took 61% of this machine's time in 1 of 54 rows.": func(
			r *runs.Run,
		) {
			r.Rows[7].Warn(result.Busy, 0.61, "")
		},
		"Not to be relied on: other processes took 61% of this machine's time in 1 of 54 rows.": func(r *runs.Run) {
			r.Manifest.Config.Margin = nil
			r.Rows[7].Warn(result.Busy, 0.61, "")
		},
		"Against fine faster: lua.": func(r *runs.Run) { r.Rows[7].Warn(result.Busy, 0.06, "") },
		"At 5x5 lua is faster than fine: 2.993 times the purchases/s (2.987 to 3.000).": func(r *runs.Run) {
			c := &r.Manifest.Config
			c.Points = c.Points[:2]
		},
	} {
		r := compared()
		change(r)
		d := view.Run(r)
		if d.Findings[0] != want || len(d.Findings) > 3 {
			t.Errorf("the findings are %q, want %q", d.Findings, want)
		}
	}
}

// TestBusyMachineDecidesNothing: what other processes took stands before how many claims
// hold, and before what is faster.
func TestBusyMachineDecidesNothing(t *testing.T) {
	r := compared()
	for i := range r.Rows {
		r.Rows[i].Warn(result.Busy, 0.43, "")
	}
	r.Claims = []runs.Claim{{ID: 1, Verdict: runs.NotJudged}}
	want := []string{
		"Not decided: other processes took 43% of this machine's time in 54 of 54 rows.",
		"No claim of the book is judged: the table of claims says why.",
	}
	if got := view.Run(r).Findings; !slices.Equal(got, want) {
		t.Errorf("the findings are %q, want %q", got, want)
	}
}

// TestAllOthers: the line of a scenario with the most schemes does not name
// them all, and the others do.
func TestAllOthers(t *testing.T) {
	f := faults()
	for i := range 5 {
		f.Subjects = append(f.Subjects, fmt.Sprintf("more%d", i))
		f.Findings = append(f.Findings, findings.Finding{Scenario: "pause", Subject: f.Subjects[3+i],
			Verdict: verify.NotApplicable, Why: "it cannot"})
	}

	f.Status, f.Findings[0].Kept = stored.Interrupted, "it needs etcd"
	var b bytes.Buffer
	testkit.Succeeds(t, view.Text(&b, view.Faults(f)))

	// Nine findings of faults and five more; each scheme in each scenario would be 24.
	for want, is := range map[string]bool{"all others  it cannot": true, "more3, more4": false,
		"1 finding kept from an earlier run, because": true, "set-px      the holder wrote": true,
		"The run was interrupted by the user: 14 of 24 findings were made.": true} {
		if strings.Contains(b.String(), want) != is {
			t.Errorf("%q: want %t in\n%s", want, is, b.String())
		}
	}
}

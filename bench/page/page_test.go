package page_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/marketsim/marketsim/bench/page/pagetest"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// stored is the folder with what is stored, and book a run of the book's tables in it.
const (
	stored = "../../results"
	book   = stored + "/" + pagetest.Book
)

// TestStoredResults draws all that is stored on one page, and each by itself.
func TestStoredResults(t *testing.T) {
	all := pagetest.Results(t, stored)
	p := parse(t, pagetest.Drawn(t, all))
	p.sound(t)
	for _, part := range all.Parts() {
		p.tells(t, part)
		alone := parse(t, pagetest.Drawn(t, part))
		alone.sound(t)
		alone.tells(t, part)
		if run := part.Run(); run != nil && len(alone.all("svg")) == 0 {
			t.Errorf("%s: there is no picture", part.Name())
		}
	}
}

// TestSaysTheSameTwice: a page of the same results is the same, byte by byte.
func TestSaysTheSameTwice(t *testing.T) {
	d := pagetest.Document(t, book)
	if first, again := pagetest.Drawn(t, d), pagetest.Drawn(t, d); first != again {
		t.Error("two pages of one document differ")
	}
}

// TestMarkup: names with markup in them are text, in pictures as well.
func TestMarkup(t *testing.T) {
	const bad = `<script>alert(1)</script>"'&`
	run := pagetest.ReadRun(t, book)
	run.Manifest.CPU, run.Manifest.Command = bad, bad
	for i := range run.Rows {
		run.Rows[i].Strategy = bad + run.Rows[i].Strategy
		run.Rows[i].Warnings = []string{bad}
	}
	for i := range run.Manifest.Config.Strategies {
		run.Manifest.Config.Strategies[i] = bad + run.Manifest.Config.Strategies[i]
	}
	for i := range run.Claims {
		run.Claims[i].Text = bad
	}
	faults := &result.Faults{
		Schema: result.FaultsSchema, Status: result.Complete, Subjects: []string{bad},
		Scenarios: []result.Scenario{{Name: bad, Title: bad}},
		Findings: []result.Finding{{Scenario: bad, Subject: bad, Verdict: result.Safe, Harm: result.NoHarm, KeptOut: result.AtOnce,
			Why: bad, Broken: bad}},
	}
	records := report.Records(nil, [][]string{{bad}, {bad}}, nil)
	p := parse(t, pagetest.Drawn(t, report.Several([]string{bad, bad, bad}, []*report.Document{report.Run(run), report.Faults(faults), records})))
	p.sound(t)
	for _, n := range p.all("script") {
		if strings.Contains(text(n), "alert") {
			t.Errorf("it runs %q", text(n))
		}
	}
	if n := len(p.all("script")); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if !strings.Contains(text(p.root), bad) {
		t.Error("the name is nowhere")
	}
}

// TestWhatIsMissing: of an interrupted run it is said what was not measured, and of an older one what was not recorded.
func TestWhatIsMissing(t *testing.T) {
	run := pagetest.ReadRun(t, book)
	run.Status = result.Interrupted
	run.Rows = slices.DeleteFunc(run.Rows, func(r result.Row) bool { return r.Strategy == "fine" })
	for i := range run.Rows {
		run.Rows[i].Series, run.Rows[i].Cost = nil, nil
	}
	says := text(parse(t, pagetest.Drawn(t, report.Run(run))).root)
	for _, want := range []string{"INTERRUPTED by the user", "Not measured: fine 1x1, fine 5x1 and fine 5x5.",
		"Not recorded in this run, and so not drawn: throughput over time, tries for each purchase and what a purchase costs."} {
		if !strings.Contains(says, want) {
			t.Errorf("nothing says %q", want)
		}
	}
	run.Rows = []result.Row{}
	none := parse(t, pagetest.Drawn(t, report.Run(run)))
	none.sound(t)
	if says := text(none.root); !strings.Contains(says, "No row was measured.") || !strings.Contains(says, "Not measured: watch 1x1") {
		t.Errorf("of a run without a row: %s", says)
	}
}

// TestMatrix: each finding has a cell with its code, and one of which there is something to tell its story.
func TestMatrix(t *testing.T) {
	d := pagetest.Document(t, stored+"/faults/faults.json")
	res := d.Faults()
	p := parse(t, pagetest.Drawn(t, d))
	cells, _ := report.Matrix(res)
	matrix := p.find("table", "matrix")
	if len(matrix) != 1 {
		t.Fatalf("%d matrices", len(matrix))
	}
	lines := within(matrix[0], "tr")[1:]
	if len(lines) != len(res.Subjects) {
		t.Fatalf("%d lines for %d subjects", len(lines), len(res.Subjects))
	}
	told := 0
	for i, line := range lines {
		for j, td := range within(line, "td") {
			f, stories := cells[i][j], within(td, "details")
			switch {
			case !strings.HasPrefix(text(td), f.Code):
				t.Errorf("%s in %s is %q, want %q", res.Subjects[i], res.Scenarios[j].Name, text(td), f.Code)
			case f.Verdict == result.NotApplicable && len(stories) > 0:
				t.Errorf("%s in %s tells of nothing", res.Subjects[i], res.Scenarios[j].Name)
			case f.Verdict == result.NotApplicable:
			case len(stories) != 1 || !strings.Contains(text(stories[0]), f.Why) || !strings.Contains(text(stories[0]), f.Harm.Text):
				t.Errorf("%s in %s does not tell that %s: %s", res.Subjects[i], res.Scenarios[j].Name, f.Harm.Text, f.Why)
			default:
				told++
			}
		}
	}
	if told < 500 {
		t.Errorf("only %d stories", told)
	}
}

// TestFaultsCutShort: what was found until then is drawn, with a warning before all else.
func TestFaultsCutShort(t *testing.T) {
	res := pagetest.Document(t, stored+"/faults/faults.json").Faults()
	res.Status, res.Findings = result.Interrupted, res.Findings[:100]
	p := parse(t, pagetest.Drawn(t, report.Faults(res)))
	p.sound(t)
	warnings := p.find("p", "warning")
	if len(warnings) != 1 || !strings.Contains(text(warnings[0]), "INTERRUPTED by the user: this is what was found until then, 100 of 1,980") {
		t.Errorf("%d warnings", len(warnings))
	}
	empty := 0
	for _, td := range within(p.find("table", "matrix")[0], "td") {
		if text(td) == "" {
			empty++
		}
	}
	if want := len(res.Subjects)*len(res.Scenarios) - 100 + 1; empty != want { // and the corner
		t.Errorf("%d cells are empty, want %d", empty, want)
	}
}

// FuzzWrite: whatever is read as a run can be drawn, and what it says is never markup.
func FuzzWrite(f *testing.F) {
	f.Add([]byte(`{"schema":1,"status":"interrupted","rows":[{"strategy":"<b>fine","sellers":5,"buyers":5,"trial":1,` +
		`"status":"complete","seconds":1e300,"bought":9,"purchases_per_second":1e-300,"wait_ms":{"mean":1.5},"per_buyer":[1],` +
		`"series":{"step_seconds":0.1,"purchases":[1,0]},` +
		`"audit":{"done":true}}],"claims":[{"id":1,"holds":null}],"manifest":{"config":{"reproduces":["6-1","x"]}}}`))
	f.Add([]byte(`{"schema":1,"status":"incomplete","rows":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := result.ReadRun(bytes.NewReader(data))
		if err != nil {
			return
		}
		parse(t, pagetest.Drawn(t, report.Run(run))).sound(t)
	})
}

// A parsed page.
type parsed struct{ root *html.Node }

func parse(t testing.TB, text string) parsed {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed{root}
}

// all are the elements of a kind, in the order of the page.
func (p parsed) all(kind string) []*html.Node { return within(p.root, kind) }

func within(root *html.Node, kind string) (found []*html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == kind {
			found = append(found, n)
		}
	}
	return found
}

// find are the elements of a kind and a class.
func (p parsed) find(kind, class string) []*html.Node {
	return slices.DeleteFunc(p.all(kind), func(n *html.Node) bool {
		return !slices.Contains(strings.Fields(attribute(n, "class")), class)
	})
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what an element says.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// outside is what would be loaded from somewhere else.
var outside = regexp.MustCompile(`(?i)url\(|@import|https?://`)

// sound checks what holds of every page: it is one document with headings in order, each id is there once and each link
// leads to one, nothing comes from outside, and every table and picture has a name.
func (p parsed) sound(t testing.TB) {
	t.Helper()
	if lang := attribute(p.all("html")[0], "lang"); lang != "en" {
		t.Errorf("its language is %q", lang)
	}
	ids := map[string]bool{}
	level := 0
	for n := range p.root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %q is there twice", id)
			}
			ids[id] = true
		}
		if len(n.Data) == 2 && n.Data[0] == 'h' && '1' <= n.Data[1] && n.Data[1] <= '6' {
			if now := int(n.Data[1] - '0'); now > level+1 || now == 1 && level > 0 {
				t.Errorf("after a heading of level %d comes %q of level %d", level, text(n), now)
			} else {
				level = now
			}
		}
		for _, a := range n.Attr {
			loads := a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") && a.Val != "data:,"
			if loads || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "style" && outside.MatchString(text(n)) {
			t.Errorf("a style loads %q", outside.FindString(text(n)))
		}
		if n.Data == "table" {
			if box := n.Parent; attribute(box, "tabindex") != "0" || attribute(box, "role") != "region" || attribute(box, "aria-label") == "" {
				t.Errorf("the table %.40q does not scroll in a region with a name", text(n))
			}
		}
		if n.Data == "svg" && (attribute(n, "role") != "img" || len(within(n, "title")) != 1 || len(within(n, "desc")) != 1) {
			t.Errorf("a picture without its words: %.40q", text(n))
		}
	}
	for _, a := range p.all("a") {
		if to, _ := strings.CutPrefix(attribute(a, "href"), "#"); !ids[to] {
			t.Errorf("the link %q leads nowhere: %q", text(a), to)
		}
	}
}

// tells checks that a page says all that a document does.
func (p parsed) tells(t *testing.T, d *report.Document) {
	t.Helper()
	page := text(p.root)
	says := func(of, what string) {
		if !strings.Contains(page, what) {
			t.Errorf("%s: the %s %q is missing", d.Name(), of, what)
		}
	}
	for _, line := range slices.Concat(d.Warnings(), d.Head(), d.Findings()) {
		says("line", line)
	}
	for _, s := range d.Sections() {
		says("title", s.Title)
		says("meaning", s.Meaning)
		for _, line := range slices.Concat(s.Lines, s.Notes) {
			says("line", line)
		}
		if s.Table == nil {
			continue
		}
		for _, row := range s.Table.Rows {
			for _, c := range row {
				says("cell", c.Text)
			}
		}
	}
}

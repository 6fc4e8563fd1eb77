package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
)

// faultFormats are the formats of a fault.Result, in the order in which they are named to people.
var faultFormats = []struct {
	name  string
	write func(io.Writer, *fault.Result) error
}{
	{"text", func(w io.Writer, res *fault.Result) error { return FaultText(w, res, Options{}) }},
	{"markdown", FaultMarkdown},
	{"json", func(w io.Writer, res *fault.Result) error { return res.Write(w) }},
}

// FaultFormats returns the names that WriteFaults knows.
func FaultFormats() []string {
	names := make([]string, 0, len(faultFormats))
	for _, f := range faultFormats {
		names = append(names, f.name)
	}
	return names
}

// WriteFaults writes what scenarios found in the named format, one of FaultFormats, without color. The error for any
// other name wraps ErrFormat.
func WriteFaults(w io.Writer, format string, res *fault.Result) error {
	for _, f := range faultFormats {
		if f.name == format {
			return f.write(w, res)
		}
	}
	return fmt.Errorf("%w %q of faults: want one of %s", ErrFormat, format, strings.Join(FaultFormats(), ", "))
}

// FaultText writes what scenarios found for a terminal of 100 columns or a text file: scenario by scenario, then a
// matrix of subjects and scenarios.
func FaultText(w io.Writer, res *fault.Result, opts Options) error {
	return drawFaults(w, textPainter{color: opts.Color && os.Getenv("NO_COLOR") == ""}, res)
}

// FaultMarkdown writes the same as GitHub-flavoured Markdown.
func FaultMarkdown(w io.Writer, res *fault.Result) error {
	return drawFaults(w, markdownPainter{}, res)
}

// A faultPainter draws what scenarios found.
type faultPainter interface {
	painter
	scenario([]group) section       // what stands below a scenario's title
	paragraph(text string) []string // breaks a text where its lines may not be endless
}

// drawFaults builds the document and writes it at once.
func drawFaults(w io.Writer, p faultPainter, res *fault.Result) error {
	var b bytes.Buffer
	var head []string
	for _, line := range faultHead(res) {
		head = append(head, p.paragraph(line)...)
	}
	p.head(&b, head)
	var sections []section
	for i, sc := range res.Scenarios {
		s := p.scenario(groups(res.Of(sc.Name)))
		s.title = strings.Join(p.paragraph(fmt.Sprintf("%d. %s: %s", i+1, clean(sc.Name), clean(sc.Title))), "\n")
		sections = append(sections, s)
	}
	for _, s := range append(sections, matrix(res, p.paragraph(legend()))...) {
		if err := p.section(&b, s); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// faultHead says what was played where. What would make a reader distrust it comes first.
func faultHead(res *fault.Result) []string {
	m, cells := res.Manifest, len(res.Scenarios)*len(res.Subjects)
	var lines []string
	found := fmt.Sprintf("this is what was found until then, %d of %s.", len(res.Findings), count(int64(cells), "finding"))
	switch res.Status {
	case bench.Incomplete:
		lines = append(lines, "INCOMPLETE: the environment failed; "+found)
	case bench.Interrupted:
		lines = append(lines, "INTERRUPTED by the user: "+found)
	}
	for _, f := range res.Broken() {
		lines = append(lines, fmt.Sprintf("BROKEN PROMISE: %s says %q, and in %s: %s, %s.",
			clean(f.Subject), clean(f.Broken), clean(f.Scenario), f.Verdict, clean(f.Why)))
	}
	if m.Backend == "embedded" {
		lines = append(lines, "EMBEDDED MINIREDIS: this is not Redis's behaviour.")
	}
	return append(lines,
		fmt.Sprintf("marketsim %s on %s %s (%s), %s", known(m.Version), known(m.Server), known(m.ServerVersion),
			known(m.Backend), joined(", ", clean(m.Go), clean(m.OS))),
		fmt.Sprintf("%s, %s: %s", count(int64(len(res.Scenarios)), "scenario"), count(int64(len(res.Subjects)), "subject"),
			verdicts(res.Findings)))
}

// verdicts counts the findings by verdict, the worst first: "2 sold twice, 10 safe".
func verdicts(found []fault.Finding) string {
	times := map[fault.Verdict]int64{}
	for _, f := range found {
		times[f.Verdict]++
	}
	var parts []string
	for _, v := range worstFirst() {
		if times[v] > 0 {
			parts = append(parts, thousands(times[v])+" "+string(v))
		}
	}
	return known(strings.Join(parts, ", "))
}

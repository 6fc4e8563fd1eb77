package report

import (
	"strings"

	"github.com/marketsim/marketsim/bench/fault"
)

// narrow is how many columns a text of faults may have.
const narrow = 100

// scenario is the groups of a scenario as lines: a verdict with who got it, and below that what happened.
func (p textPainter) scenario(all []group) section {
	margin := len(gap)
	for _, v := range fault.Verdicts() {
		margin = max(margin, len(gap+string(v)+gap))
	}
	var s section
	for _, g := range all {
		texts := []string{strings.Join(g.subjects, ", "), g.said()}
		if len(g.subjects) == 0 {
			texts = texts[1:]
		}
		var lines []string
		for _, text := range texts {
			lines = append(lines, wrap(text, narrow-margin)...)
		}
		indent := strings.Repeat(" ", margin)
		label := gap + p.paint(cell{string(g.verdict), mark(g.verdict)}) + indent[len(gap)+len(g.verdict):]
		for i, line := range lines {
			if i > 0 {
				label = indent
			}
			s.lines = append(s.lines, label+line)
		}
	}
	if len(all) == 0 {
		s.lines = []string{gap + "not played"}
	}
	return s
}

// wrap breaks a text at spaces so that no line has more letters than width, unless a word does.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

func (p textPainter) paragraph(text string) []string { return wrap(text, narrow) }

func (p markdownPainter) paragraph(text string) []string { return []string{text} }

// scenario is the groups of a scenario as a table.
func (p markdownPainter) scenario(all []group) section {
	if len(all) == 0 {
		return section{lines: []string{"Not played."}}
	}
	t := &table{header: []string{"verdict", "who", "what happens"}, left: 3}
	var s section
	for _, g := range all {
		if g.verdict == fault.NotApplicable {
			s.notes = []string{"Not applicable: " + g.why + "."}
			continue
		}
		row := cells(string(g.verdict), strings.Join(g.subjects, ", "), g.said())
		row[0].verdict = mark(g.verdict)
		t.rows = append(t.rows, row)
	}
	if len(t.rows) > 0 {
		s.table = t
	}
	return s
}

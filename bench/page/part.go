package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench/report"
)

// A part is one result on a page. Its headings stand below its title where the page has several.
type part struct {
	ID       string
	Below    bool
	Title    string
	Name     string // of the file
	Warnings []string
	Findings []string // what was found, in a few sentences
	Head     []string // what was measured where
	Missing  []string // what is not there, and could be
	Figures  []figure
	Contents []section // those that a reader may want to jump to
	Matrix   *matrix
	Sections []section
	Manifest string
}

// A section is a section of the document.
type section struct {
	ID     string
	Below  bool
	Title  string
	Label  string // of the region in which its table scrolls
	Folded bool
	Lines  []string
	// Meaning is what the numbers of the table mean. It stands before them: who reads it may not need them.
	Meaning string
	Table   *table
	Notes   []string
}

// A table is the table of a section.
type table struct {
	Header []report.Heading
	Rows   []row
}

// A row is a row of a table; its class says whether it goes on with the one above.
type row struct {
	Class string
	Cells []cell
}

type cell struct{ Text, Class string }

// long is from how many characters on a text is broken into lines.
const long = 32

func newPart(d *report.Document, id string, below bool) (part, error) {
	p := part{ID: id, Below: below, Name: d.Name(), Warnings: d.Warnings(), Findings: d.Findings(), Head: d.Head()}
	p.Title = title(d)
	var manifest any
	if run := d.Run(); run != nil {
		var err error
		if p.Figures, err = figures(run, id); err != nil {
			return p, err
		}
		p.Missing, manifest = missing(run), run.Manifest
	}
	faults := d.Faults()
	if faults != nil {
		p.Matrix, manifest = newMatrix(faults, id, below), faults.Manifest
	}
	if manifest != nil {
		text, err := json.MarshalIndent(manifest, "", "  ")
		if err != nil {
			return p, fmt.Errorf("manifest: %w", err)
		}
		p.Manifest = string(text)
	}
	for i, s := range d.Sections() {
		one := newSection(s, fmt.Sprintf("%s-s%d", id, i+1), below)
		if faults != nil && one.Title != "" {
			one.Folded = true
		}
		p.Sections = append(p.Sections, one)
		if one.Title != "" && !one.Folded {
			one.Title, _, _ = strings.Cut(one.Title, ": ")
			p.Contents = append(p.Contents, one)
		}
	}
	return p, nil
}

func newSection(s report.Section, id string, below bool) section {
	one := section{ID: id, Below: below, Title: s.Title, Label: s.Title, Lines: s.Lines, Meaning: s.Meaning,
		Notes: s.Notes}
	if one.Label == "" {
		one.Label = "Table"
	}
	if s.Table != nil {
		one.Table = newTable(s.Table)
	}
	return one
}

func newTable(t *report.Table) *table {
	shown := &table{Header: t.Header}
	broken := make([]bool, len(t.Header)) // columns whose texts are broken into lines
	for _, cells := range t.Rows {
		for i, c := range cells {
			broken[i] = broken[i] || t.Header[i].Left && utf8.RuneCountInString(c.Text) > long
		}
	}
	for _, cells := range t.Rows {
		var r row
		for i, c := range cells {
			var class []string
			if t.Header[i].Left {
				class = append(class, "left")
			}
			if broken[i] {
				class = append(class, "long")
			}
			if c.Tone != report.Plain {
				class = append(class, string(c.Tone))
			}
			r.Cells = append(r.Cells, cell{c.Text, strings.Join(class, " ")})
		}
		if len(r.Cells) > 0 && r.Cells[0].Text == "" {
			r.Class = "more"
		}
		shown.Rows = append(shown.Rows, r)
	}
	return shown
}

package report

import (
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// What follows lets renderers of other packages read a document. Its texts are clean: a renderer escapes what its format
// gives a meaning, and nothing else.

// A Section is a titled part of a document: lines, then a table, then notes, then what the table means. Any of them may be
// missing.
type Section struct {
	Title   string
	Lines   []string
	Table   *Table
	Notes   []string
	Meaning string // what the numbers of the table say, in plain words
}

// A Table is a table in words. Every row has a cell for each heading.
type Table struct {
	Header []Heading
	Rows   [][]Cell
}

// A Heading is the head of a table's column.
type Heading struct {
	Text string
	Left bool // the column is aligned to the left, and not to the right as numbers are
}

// A Cell is one cell of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Tone is how a cell is marked besides what it says.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Bad   Tone = "bad"
)

// Name is the name of a document that is one of several.
func (d *Document) Name() string { return d.name }

// Parts are the documents that a document is made of, each with its name; there are none where it is not of several.
func (d *Document) Parts() []*Document { return d.parts }

// Run is the run that the document is about; nil: it is about something else.
func (d *Document) Run() *result.Run { return d.run }

// Faults are the findings that the document is about; nil: it is about something else.
func (d *Document) Faults() *result.Faults {
	faults, _ := d.stored.(*result.Faults)
	return faults
}

// Findings are what was found, in at most three sentences: see [Findings] and [FaultFindings].
func (d *Document) Findings() []string { return slices.Clone(d.findings) }

// Warnings say what would make a reader distrust the document: that a run was cut short, or failed its audit.
func (d *Document) Warnings() []string {
	if d.run != nil {
		return runWarnings(d.run)
	}
	if faults := d.Faults(); faults != nil {
		return faultsWarnings(faults)
	}
	return nil
}

// Head says what was measured where, line by line, without the warnings.
func (d *Document) Head() []string {
	warnings := d.Warnings()
	return slices.DeleteFunc(slices.Clone(d.head), func(line string) bool { return slices.Contains(warnings, line) })
}

// Sections are the parts of the document, in their order. The matrix of findings is not among them, because a text has
// it in pieces: see [Matrix].
func (d *Document) Sections() []Section {
	var all []Section
	for _, s := range d.sections {
		if s.matrix {
			continue
		}
		all = append(all, Section{Title: s.title, Lines: slices.Clone(s.lines), Table: s.table.read(), Notes: slices.Clone(s.notes),
			Meaning: s.meaning})
	}
	return all
}

// read is a table for other packages.
func (t *table) read() *Table {
	if t == nil {
		return nil
	}
	shown := &Table{}
	for _, h := range t.header {
		shown.Header = append(shown.Header, Heading{Text: oneLine(h.text), Left: h.left})
	}
	for _, row := range t.rows {
		var line []Cell
		for _, c := range row {
			line = append(line, c.read())
		}
		shown.Rows = append(shown.Rows, line)
	}
	return shown
}

func (c cell) read() Cell {
	return Cell{Text: c.text, Tone: [...]Tone{plain: Plain, good: Good, bad: Bad}[c.tone]}
}

// A MatrixCell is a finding as a matrix shows it: a code, what that stands for, and the whole story.
type MatrixCell struct {
	Code    string // as the legend of the text has it: "2s 1"
	Harm    Cell   // what happened to money and items
	KeptOut Cell   // how long others were kept out; without a text where that was not asked
	Why     string // the explanation, with the promise that is broken
	Verdict result.Verdict
}

// Matrix is all findings at a glance: a line for each subject, and in it a cell for each scenario; nil where nothing was
// found. explained says what the codes in use stand for.
func Matrix(res *result.Faults) (cells [][]*MatrixCell, explained string) {
	cells = make([][]*MatrixCell, len(res.Subjects))
	for i := range cells {
		cells[i] = make([]*MatrixCell, len(res.Scenarios))
	}
	for column, sc := range res.Scenarios {
		codes := newMatrixColumn(res, column).codes
		for _, f := range res.Of(sc.Name) {
			line := slices.Index(res.Subjects, f.Subject)
			if line < 0 {
				continue
			}
			harm, kept := answers(f)
			if f.KeptOut == "" || f.KeptOut == result.NotAsked {
				kept = cell{}
			}
			cells[line][column] = &MatrixCell{Code: codes[line], Harm: harm.read(), KeptOut: kept.read(),
				Why: group{Finding: f}.said(), Verdict: f.Verdict}
		}
	}
	return cells, legend(res)
}

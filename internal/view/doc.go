// Package view turns stored results into something to read. [Run], [Faults] and
// [Explored] make a [Doc] of what is stored and of nothing else, so that it can be drawn
// again without Redis; [Text], [Terminal], [Markdown] and [HTML] draw it. [CSV] and
// [Gobench] write a run for other programs.
//
// Tables of rows show [runs.Metrics] and no other numbers. What stored codes mean
// is in words.go. A result may be somebody else's: every renderer strips control
// characters and escapes what its format gives a meaning.
package view

import (
	"slices"
	"strings"
	"unicode"
)

// A Doc is a report before it is drawn.
type Doc struct {
	Title    string
	Facts    []string // what was measured where
	Findings []string // what was found, the most important first: three at most
	Blocks   []Block
}

// A Block is a part of a report: a table or a figure, and notes on it.
type Block struct {
	Heading string
	Note    []string
	Again   string // a command that plays it again: it is never broken into lines
	Table   *Table
	// HTML shows signs for the cells' tones; the heading of column i links to
	// block i of the Doc, from 0
	Map      bool
	Figure   *Figure
	Schedule *Figure // HTML draws it in place of the Table
}

// A Table is a table in words. Its first columns name its rows: if it is cut in
// several, each part has them.
type Table struct {
	Headings []string
	Rows     [][]Cell // each with a cell for each heading
	names    int      // how many columns name rows
	prose    []string // headings, see Wrapping
	Filters  []Filter // HTML has them
}

// A Cell is a text of a table, and how it is shown.
type Cell struct {
	Text string
	Tone Tone
}

// A Tone is what a text says of what was found. A renderer has a colour, an
// emphasis or a sign for it.
type Tone string

// The tones. Pages have a class of the same name.
const (
	plain  Tone = ""
	good   Tone = "good"
	awhile Tone = "awhile" // others were kept out for a while, or their orders failed
	never  Tone = "never"  // others never got in
	bad    Tone = "bad"
	broken Tone = "broken" // a promise was broken
)

// NewTable makes a table without rows.
func NewTable(headings ...string) *Table { return &Table{Headings: headings, names: 1} }

// Add adds a row of plain texts. Cells that it lacks are empty; more than there
// are headings are dropped.
func (t *Table) Add(texts ...string) { t.add(cells(texts...)...) }

func (t *Table) add(cells ...Cell) {
	row := make([]Cell, len(t.Headings))
	copy(row, cells)
	t.Rows = append(t.Rows, row)
}

// tone sets the tone of a cell of the last row. Columns are counted as they were added, so it
// is called before some of them are left out.
func (t *Table) tone(i int, tone Tone) { t.Rows[len(t.Rows)-1][i].Tone = tone }

// Wrapping says which columns hold prose, which may be broken into lines.
func (t *Table) Wrapping(headings ...string) *Table {
	t.prose = headings
	return t
}

func cells(texts ...string) []Cell {
	return mapped(texts, func(text string) Cell { return Cell{Text: text} })
}

// withoutIdleColumns leaves out the columns, except the first, in which every cell is one
// of the idle texts. How many columns name rows stays as it was: whoever may leave one of
// these out sets names afterwards, as ComparisonTable does.
func (t *Table) withoutIdleColumns(idle ...string) *Table {
	keep := []int{0}
	for i := 1; i < len(t.Headings); i++ {
		if slices.ContainsFunc(t.column(i), func(text string) bool { return !slices.Contains(idle, text) }) {
			keep = append(keep, i)
		}
	}
	return t.pick(keep)
}

func (t *Table) column(i int) []string {
	return mapped(t.Rows, func(row []Cell) string { return row[i].Text })
}

func (t *Table) pick(columns []int) *Table {
	picked := &Table{names: t.names, prose: t.prose, Filters: t.Filters}
	picked.Headings = mapped(columns, func(i int) string { return t.Headings[i] })
	for _, row := range t.Rows {
		picked.add(mapped(columns, func(i int) Cell { return row[i] })...)
	}
	return picked
}

// each is the table with a function applied to all its texts. The prose names columns by their
// headings, so it changes with these.
func (t *Table) each(f func(string) string) *Table {
	done := &Table{Headings: mapped(t.Headings, f), names: t.names, prose: mapped(t.prose, f)}
	for _, filter := range t.Filters {
		done.Filters = append(done.Filters, Filter{Label: f(filter.Label), Values: mapped(filter.Values, f)})
	}
	for _, row := range t.Rows {
		done.add(mapped(row, func(c Cell) Cell { return Cell{f(c.Text), c.Tone} })...)
	}
	return done
}

// copied is a table whose cells can be changed.
func (t *Table) copied() *Table { return t.each(func(text string) string { return text }) }

// each is the document with a function applied to all its texts, except those of figures, which
// drawing.write makes safe to show, and commands, which whoever makes a block has made so.
func (d *Doc) each(f func(string) string) *Doc {
	done := &Doc{Title: f(d.Title), Facts: mapped(d.Facts, f), Findings: mapped(d.Findings, f)}
	for _, b := range d.Blocks {
		b.Heading, b.Note = f(b.Heading), mapped(b.Note, f)
		if b.Table != nil {
			b.Table = b.Table.each(f)
		}
		done.Blocks = append(done.Blocks, b)
	}
	return done
}

func mapped[T, U any](all []T, f func(T) U) []U {
	done := make([]U, len(all))
	for i, one := range all {
		done[i] = f(one)
	}
	return done
}

// printable makes a text from a file safe to print: a control character could
// move a cursor or break a table.
func printable(s string) string {
	s = strings.TrimSpace(s)
	special := func(r rune) bool { return r < ' ' || r > '~' }
	if !strings.ContainsFunc(s, special) {
		return s // the usual case
	}

	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

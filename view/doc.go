// Package view turns stored results into something to read. [Run], [Several], [Faults] and [Explored] make a [Doc] of
// what is stored and of nothing else, so that it can be drawn again without Redis; [Text], [Terminal], [Markdown] and
// [HTML] draw it. [CSV] and [Gobench] write a run for other programs.
//
// The tables of a run are made from [result.Metrics] alone. What stored codes mean is in words.go. A result may be from
// somebody else: every renderer strips control characters and escapes what its format gives a meaning.
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
	Heading  string
	Note     []string
	Table    *Table
	Figure   *Figure
	Schedule *Figure // drawn in place of its Table where a picture can be
}

// A Table is a table in words. Its first column names its rows: where it is cut in several, each has it.
type Table struct {
	Headings []string
	Rows     [][]string // each with a cell for each heading
}

// NewTable makes a table without rows.
func NewTable(headings ...string) *Table { return &Table{Headings: headings} }

// Add adds a row. Cells that it lacks are empty; more than there are headings are dropped.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.Headings))
	copy(row, cells)
	t.Rows = append(t.Rows, row)
}

// without leaves out the columns after the first in which every cell is one of those.
func (t *Table) without(idle ...string) *Table {
	keep := []int{0}
	for i := 1; i < len(t.Headings); i++ {
		if slices.ContainsFunc(t.Rows, func(row []string) bool { return !slices.Contains(idle, row[i]) }) {
			keep = append(keep, i)
		}
	}
	return t.pick(keep)
}

func (t *Table) pick(columns []int) *Table {
	of := func(row []string) (some []string) {
		for _, i := range columns {
			some = append(some, row[i])
		}
		return some
	}
	picked := NewTable(of(t.Headings)...)
	for _, row := range t.Rows {
		picked.Add(of(row)...)
	}
	return picked
}

func (t *Table) each(f func(string) string) *Table {
	done := NewTable(mapped(t.Headings, f)...)
	for _, row := range t.Rows {
		done.Add(mapped(row, f)...)
	}
	return done
}

// each is the document with a function applied to all its texts, those of figures excepted.
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

func mapped(texts []string, f func(string) string) []string {
	done := make([]string, len(texts))
	for i, text := range texts {
		done[i] = f(text)
	}
	return done
}

// printable makes a text from a file safe to print: a control character could move a cursor or break a table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimSpace(s))
}

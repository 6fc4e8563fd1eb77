// Package report turns a stored result into something to read: text for a terminal, Markdown for a page, CSV for a
// spreadsheet, and the JSON it came from.
//
// [Run] and [Faults] build a [Document] from what is stored and from nothing else, so that a report can be drawn again
// years later and without Redis. [Document.Write] draws it in one of the [Formats]. Text and Markdown say the same
// things and differ only in how they draw a section. A report never decides anything: claims were judged and markets
// audited when the run ended.
//
// The numbers of a row come from one table of columns, in columns.go: a new number is one entry there, and then stands
// in the CSV, in the text and in the Markdown.
//
// A report opens with what was found, in at most three sentences (findings.go), and each of its tables ends with a line that
// says in plain words what its numbers mean (meaning.go).
//
// A result may come from a file that somebody else wrote. Text from it is stripped of control characters, and numbers
// that cannot be (negative counts, waits of 1e300 ms) are printed and not trusted.
package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/marketsim/marketsim/bench/result"
)

// ErrFormat is returned for a format that does not exist.
var ErrFormat = errors.New("unknown report format")

// The formats of a document.
const (
	Text     = "text"     // for a terminal or a text file
	Markdown = "markdown" // GitHub-flavoured
	CSV      = "csv"      // a line for each row of a run, or for each finding of a scenario
	JSON     = "json"     // as it is stored
)

// Formats returns the names of the formats that every document has, in the order in which they are named to people.
func Formats() []string { return []string{Text, Markdown, CSV, JSON} }

// RunFormats returns the names of the formats that a run has: Formats, and those for other programs.
func RunFormats() []string { return append(Formats(), GoBench, HGRM) }

// CheckFormat returns an error that wraps ErrFormat and names the formats that there are, unless format is one of them.
func CheckFormat(format string, formats []string) error {
	if !slices.Contains(formats, format) {
		return fmt.Errorf("%w %q: want one of %s", ErrFormat, format, strings.Join(formats, ", "))
	}
	return nil
}

// Options tells Write how to draw. The zero value suits a file.
type Options struct {
	// Color marks good and bad verdicts of a text in green and red, for a terminal. By default there is none, and there
	// is none when the environment variable NO_COLOR is set or TERM is dumb.
	Color bool
}

// A Document is a report before it is drawn.
type Document struct {
	head     []string // what was measured where
	findings []string // what was found, in a few sentences
	sections []section
	records  [][]string // of the CSV, the names of its columns first
	stored   stored
	run      *result.Run // nil: it is no run, and lacks the formats that only a run has
	name     string      // in a document of several
	parts    []*Document // of a document of several
}

// Width is how many columns the lines of a text have at most, and its tables: what is too wide loses columns, which are
// named below it, and is whole in the other formats. Only a name that is longer by itself exceeds it.
const Width = 80

// Records is the document of records that no row and no scenario made, such as a list of locks: the names of the
// columns first. A text shows the given lines, broken at Width, or, if they are nil, the records as Markdown and CSV do. JSON shows value, or if that
// is nil an object a record.
func Records(lines []string, records [][]string, value any) *Document {
	if value == nil {
		value = objects(records)
	}
	t := &table{}
	for i, name := range records[0] {
		t.header = append(t.header, heading{text: clean(name), left: true, spare: i})
	}
	all := [][]string{records[0]}
	for _, record := range records[1:] {
		var cleaned []string
		for _, text := range record {
			cleaned = append(cleaned, clean(text))
		}
		all, t.rows = append(all, cleaned), append(t.rows, cells(cleaned...))
	}
	s := section{table: t}
	if lines != nil {
		s.prose = [][]cell{}
	}
	for _, line := range lines {
		for _, part := range hang(printable(line)) {
			s.prose = append(s.prose, cells(part))
		}
	}
	return &Document{sections: []section{s}, records: all, stored: plainValue{value}}
}

// objects are records as JSON shows them.
func objects(records [][]string) any {
	all := make([]map[string]string, 0, len(records))
	for _, record := range records[1:] {
		object := map[string]string{}
		for i, name := range records[0] {
			object[name] = record[i]
		}
		all = append(all, object)
	}
	return all
}

// plainValue is a value that JSON shows as it is.
type plainValue struct{ value any }

func (v plainValue) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v.value)
}

// Several is one document of several, each with its name. A CSV has the name as the first column, JSON a list.
func Several(names []string, parts []*Document) *Document {
	d := &Document{}
	for i, part := range parts {
		named := *part
		named.name = clean(names[i])
		d.parts = append(d.parts, &named)
	}
	return d
}

// stored is a result that can be stored as JSON.
type stored interface{ Write(io.Writer) error }

// A section is a titled part of a report: lines, then a table, then notes, then what the table means. Any of them may be
// missing.
type section struct {
	title   string
	lines   []string
	table   *table
	notes   []string
	meaning string // in plain words, made from the numbers of the table

	matrix bool // it is a piece of the matrix of findings, as wide as a text

	// prose is what a text has in place of the lines, the table and the notes, where the table is too wide for a
	// terminal. A line is cells without anything between them.
	prose [][]cell
}

// A table is a table in words.
type table struct {
	header []heading
	rows   [][]cell
}

// A heading is the head of a table's column.
type heading struct {
	text  string // a newline may break a long name in two
	left  bool   // the column is aligned to the left, and not to the right as numbers are
	spare int    // where a text is too narrow, the column with the largest goes first; 0: it never goes
}

// headings makes the heads of columns, the first of which are aligned to the left.
func headings(left int, texts ...string) []heading {
	all := make([]heading, len(texts))
	for i, t := range texts {
		all[i] = heading{text: t, left: i < left}
	}
	return all
}

// A cell is one cell of a table. Its text is clean.
type cell struct {
	text string
	tone tone
}

// A tone is how a text with colors marks a cell.
type tone int

const (
	plain tone = iota
	good
	bad
)

// cells makes plain cells.
func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i] = cell{text: t}
	}
	return row
}

// Write draws the document in one of the Formats or, if it is of runs, of the RunFormats; the error for any other wraps
// ErrFormat. It writes all at once, so that an error leaves no half of a table behind.
func (d *Document) Write(w io.Writer, format string, opts Options) error {
	if err := CheckFormat(format, d.Formats()); err != nil {
		return err
	}
	var b bytes.Buffer
	err := d.draw(&b, format, opts)
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Formats returns those that the document can be drawn in: RunFormats if it is of runs only.
func (d *Document) Formats() []string {
	other := func(part *Document) bool { return part.run == nil }
	if d.run != nil || len(d.parts) > 0 && !slices.ContainsFunc(d.parts, other) {
		return RunFormats()
	}
	return Formats()
}

// draw draws a document, and if it is of several one after the other.
func (d *Document) draw(b *bytes.Buffer, format string, opts Options) error {
	records := d.records
	for i, part := range d.parts {
		switch format {
		case Text:
			fmt.Fprintf(b, "%s%s:\n", between(i, "\n"), part.name)
		case Markdown:
			fmt.Fprintf(b, "%s# %s\n\n", between(i, "\n"), escape(part.name))
		case JSON:
			b.WriteString(between(i, ",\n") + strings.Repeat("[\n", max(0, 1-i)))
		case CSV:
			header := append([]string{"file"}, part.records[0]...)
			if i == 0 {
				records = [][]string{header}
			}
			if !slices.Equal(header, records[0]) {
				return fmt.Errorf("%w: %s has other columns than %s: draw it by itself", ErrFormat, part.name, d.parts[0].name)
			}
			for _, record := range part.records[1:] {
				records = append(records, append([]string{part.name}, record...))
			}
			continue
		case HGRM:
			return fmt.Errorf("%w: draw %s by itself", ErrOneRow, part.name)
		}
		if err := part.draw(b, format, opts); err != nil {
			return err
		}
	}
	switch {
	case format == CSV:
		return csv.NewWriter(b).WriteAll(records)
	case len(d.parts) > 0:
		if format == JSON {
			b.WriteString("]\n")
		}
		return nil
	case format == Text:
		return drawText(b, d, opts)
	case format == Markdown:
		return drawMarkdown(b, d)
	case format == GoBench:
		goBench(b, d.run)
		return nil
	case format == HGRM:
		return hgrm(b, d.run)
	}
	return drawJSON(b, d.stored)
}

// between is a separator, but not before the first.
func between(i int, separator string) string {
	if i == 0 {
		return ""
	}
	return separator
}

// drawJSON writes a stored result as it is stored, with escapes for what could move a terminal's cursor: JSON escapes
// only the characters below the space.
func drawJSON(b *bytes.Buffer, s stored) error {
	var raw bytes.Buffer
	err := s.Write(&raw)
	for _, r := range raw.String() {
		if unicode.IsPrint(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	}
	return err
}

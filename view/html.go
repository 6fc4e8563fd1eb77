package view

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.gohtml page.css
var files embed.FS

var page = template.Must(template.New("page.gohtml").Funcs(template.FuncMap{
	"inline": inline, "sequence": inlineSequence, "class": class, "inc": func(i int) int { return i + 1 },
	"id": func(part, block int) string { return fmt.Sprintf("r%d-%d", part, block) },
}).ParseFS(files, "page.gohtml", "page.css"))

// HTML draws documents as one page with their figures. It holds everything it shows: it loads nothing and runs no
// script, and its content security policy forbids both. It follows the reader's light or dark scheme; a table that is
// wider than the screen scrolls by itself.
func HTML(w io.Writer, docs ...*Doc) error {
	var parts []*Doc
	for _, d := range docs {
		parts = append(parts, d.each(printable))
	}
	var b bytes.Buffer
	if err := page.Execute(&b, parts); err != nil {
		return fmt.Errorf("draw a page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inline is a figure as it is inserted, because SVG escapes what is written in it.
func inline(f *Figure) (template.HTML, error) {
	var b bytes.Buffer
	err := SVG(&b, *f)
	return template.HTML(b.String()), err
}

// inlineSequence is a schedule as it is inserted.
func inlineSequence(b Block) (template.HTML, error) {
	var text bytes.Buffer
	err := Sequence(&text, b.Heading, *b.Schedule)
	return template.HTML(text.String()), err
}

// class is how a cell of a table is drawn: numbers to the right, long texts in lines, verdicts in color.
func class(number bool, text string) string {
	const long = 32 // characters
	name := string(toneOf(text))
	if number {
		name += " number"
	}
	if len(text) > long {
		name += " long"
	}
	return name
}

// Headings are those of the columns.
func (t *Table) Headings() []string { return t.headings }

// Rows are those of a table, each with a cell for each heading.
func (t *Table) Rows() [][]string { return t.rows }

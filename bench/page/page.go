// Package page draws stored results as one HTML file to look at: what was found first, then pictures, then the tables of
// package report, and what the numbers were measured with. It is another renderer of a [report.Document], and a package of
// its own because of what package chart depends on.
//
// The file holds everything it shows. It loads nothing, has no more script than Escape and printing need, and forbids any
// other by its content security policy. It follows the reader's light or dark scheme, prints with everything unfolded,
// and can be used with a keyboard alone: a table that is wider than the screen scrolls in a region of its own.
//
// All text is escaped by html/template. Only the pictures are inserted as they are: package chart escapes what is written
// in them.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/marketsim/marketsim/bench/report"
)

// HTML is the name of the format, besides the [report.Formats].
const HTML = "html"

//go:embed page.gohtml page.css
var files embed.FS

//go:embed page.js
var script string

var layout = template.Must(template.ParseFS(files, "page.gohtml", "page.css"))

// Write draws a document as a page. It writes all at once, so that an error leaves no half of a page behind.
func Write(w io.Writer, d *report.Document) error {
	v, err := newView(d)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	var b bytes.Buffer
	if err := layout.ExecuteTemplate(&b, "page.gohtml", v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// A view is what the layout shows.
type view struct {
	Title   string
	Several bool
	Parts   []part
	Script  template.JS
	Policy  string // of what the page may load and run: its own styles and its own script
}

// newView makes a view of a document and, if it is of several, of those.
func newView(d *report.Document) (view, error) {
	parts := single(d)
	hash := sha256.Sum256([]byte(script))
	v := view{
		Title: "What came out", Several: len(parts) > 1, Script: template.JS(script),
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(hash[:]) + "'",
	}
	for i, one := range parts {
		p, err := newPart(one, fmt.Sprintf("r%d", i+1), v.Several)
		if err != nil {
			return v, err
		}
		v.Parts = append(v.Parts, p)
	}
	if len(v.Parts) == 1 {
		v.Title = v.Parts[0].Title
	}
	return v, nil
}

// single are the documents of a document that are not made of others.
func single(d *report.Document) []*report.Document {
	if len(d.Parts()) == 0 {
		return []*report.Document{d}
	}
	var all []*report.Document
	for _, p := range d.Parts() {
		all = append(all, single(p)...)
	}
	return all
}

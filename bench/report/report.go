// Package report turns a stored result into something to read: text for a terminal, Markdown for a page, CSV for a
// spreadsheet, and the JSON it came from.
//
// Every report is a function of a [bench.Result] alone, so that a run can be drawn again years later and without
// Redis. Text and Markdown say the same things: they share one document, built from sections, and differ only in how
// a section is drawn. A report never decides anything: claims were judged and markets audited when the run ended.
//
// A result may come from a file that somebody else wrote. Text from it is stripped of control characters, and numbers
// that cannot be (negative counts, waits of 1e300 ms) are printed and not trusted.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/marketsim/marketsim/bench"
)

// ErrFormat is returned by Write for a format that does not exist.
var ErrFormat = errors.New("unknown report format")

// Options tells Text how to draw. The zero value suits a file.
type Options struct {
	// Color marks verdicts in green and red, for a terminal. By default there is none, and there is none when the
	// environment variable NO_COLOR is set.
	Color bool
}

// formats are the known formats, in the order in which they are named to people.
var formats = []struct {
	name  string
	write func(io.Writer, *bench.Result) error
}{
	{"text", func(w io.Writer, res *bench.Result) error { return Text(w, res, Options{}) }},
	{"markdown", Markdown},
	{"csv", CSV},
	{"json", JSON},
}

// Formats returns the names that Write knows.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Write writes the result in the named format, one of Formats, without color. The error for any other name wraps
// ErrFormat.
func Write(w io.Writer, format string, res *bench.Result) error {
	for _, f := range formats {
		if f.name == format {
			return f.write(w, res)
		}
	}
	return fmt.Errorf("%w %q: want one of %s", ErrFormat, format, strings.Join(Formats(), ", "))
}

// Text writes the result for a terminal or a text file.
func Text(w io.Writer, res *bench.Result, opts Options) error {
	p := textPainter{color: opts.Color && os.Getenv("NO_COLOR") == ""}
	return draw(w, p, res)
}

// Markdown writes the result as GitHub-flavoured Markdown.
func Markdown(w io.Writer, res *bench.Result) error { return draw(w, markdownPainter{}, res) }

// JSON writes the result as it is stored in run.json.
func JSON(w io.Writer, res *bench.Result) error { return res.Write(w) }

// A painter draws the parts of a document in one format.
type painter interface {
	head(b *bytes.Buffer, lines []string)
	section(b *bytes.Buffer, s section) error
	claims(b *bytes.Buffer, claims []bench.Claim) error
}

// draw builds the document and writes it at once, so that an error leaves no half of a table behind.
func draw(w io.Writer, p painter, res *bench.Result) error {
	var b bytes.Buffer
	p.head(&b, head(res))
	var sections []section
	if len(res.Manifest.Config.Reproduces) > 0 {
		sections = reproduction(res)
	}
	for _, s := range sections {
		if err := p.section(&b, s); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if len(res.Claims) > 0 {
		if err := p.claims(&b, res.Claims); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	for _, s := range []section{runSection(res), detailSection(res)} {
		if err := p.section(&b, s); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

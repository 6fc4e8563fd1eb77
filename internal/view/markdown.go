package view

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Markdown draws a document as GitHub-flavoured Markdown. Figures are left out.
func Markdown(w io.Writer, d *Doc) error {
	d = d.each(func(s string) string { return escape(shown(s)) })
	var b bytes.Buffer
	if d.Title != "" {
		fmt.Fprintf(&b, "# %s\n\n", d.Title)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "- **%s**\n", f)
	}
	if len(d.Facts) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(d.Facts, "  \n")) // line breaks within the paragraph
	}

	for _, block := range d.Blocks {
		if block.Figure != nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if err := block.markdown(&b); err != nil {
			return fmt.Errorf("draw a table: %w", err)
		}
	}

	_, err := w.Write(b.Bytes())
	return err
}

func (block Block) markdown(b *bytes.Buffer) error {
	if block.Heading != "" {
		fmt.Fprintf(b, "## %s\n\n", block.Heading)
	}
	if block.Table != nil {
		if err := block.Table.render(b, renderer.NewMarkdown(), tw.PaddingDefault, emphasized); err != nil {
			return err
		}
	}

	if len(block.Note) > 0 {
		fmt.Fprintf(b, "\n- %s\n", strings.Join(block.Note, "\n- "))
	}
	if block.Again != "" {
		// Doc.each has not escaped the command: in an indented block nothing is markup.
		fmt.Fprintf(b, "\n%s\n\n    %s\n", playAgain, block.Again)
	}
	return nil
}

func emphasized(c Cell) string {
	if c.Tone == bad || c.Tone == broken {
		return "**" + c.Text + "**"
	}
	return c.Text
}

// markup is what Markdown gives a meaning, and noTag an escaped < that cannot
// open a tag, as in <200: with the backslash Numeric would not know it as a number.
var (
	markup = regexp.MustCompile("[\\\\`*\\[\\]|<]")
	noTag  = regexp.MustCompile(`\\<([0-9 ]|$)`)
)

// escape keeps text from being read as markup.
func escape(s string) string { return noTag.ReplaceAllString(markup.ReplaceAllString(s, `\$0`), "<$1") }

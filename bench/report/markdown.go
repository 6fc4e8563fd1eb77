package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// drawMarkdown draws GitHub-flavoured Markdown.
func drawMarkdown(b *bytes.Buffer, d *Document) error {
	for i, l := range d.head {
		if i > 0 {
			b.WriteString("  \n") // a line break within the paragraph
		}
		b.WriteString(escape(l))
	}
	if len(d.head) > 0 {
		b.WriteByte('\n')
	}
	if len(d.findings) > 0 {
		fmt.Fprintf(b, "\n**%s** %s\n", strings.TrimSpace(inShort), escape(strings.Join(d.findings, " ")))
	}
	for _, s := range d.sections {
		if err := markdownSection(b, s); err != nil {
			return err
		}
	}
	return nil
}

func markdownSection(b *bytes.Buffer, s section) error {
	if s.title != "" {
		fmt.Fprintf(b, "\n## %s\n", escape(s.title))
	}
	for _, l := range s.lines {
		fmt.Fprintf(b, "\n%s\n", escape(l))
	}
	if s.table != nil {
		b.WriteByte('\n')
		if err := markdownTable(b, s.table); err != nil {
			return err
		}
	}
	for i, n := range s.notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "- %s\n", escape(n))
	}
	if s.meaning != "" {
		fmt.Fprintf(b, "\n**%s**%s\n", strings.TrimSpace(inWords), " "+escape(s.meaning))
	}
	return nil
}

func markdownTable(b *bytes.Buffer, t *table) error {
	text := func(c cell) string {
		if c.tone == bad {
			return "**" + escape(c.text) + "**"
		}
		return escape(c.text)
	}
	flat := table{rows: t.rows}
	for _, h := range t.header {
		h.text = escape(oneLine(h.text))
		flat.header = append(flat.header, h)
	}
	return render(b, &flat, renderer.NewMarkdown(), tw.PaddingDefault, text)
}

// escape keeps text from being read as markup. An < is left alone where it cannot open a tag, as in <200.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		tag := c == '<' && i+1 < len(s) && !('0' <= s[i+1] && s[i+1] <= '9') && s[i+1] != ' '
		if tag || strings.IndexByte("\\`*[]|", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

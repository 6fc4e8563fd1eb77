package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/marketsim/marketsim/bench"
)

// markdownPainter draws GitHub-flavoured Markdown.
type markdownPainter struct{}

func (p markdownPainter) head(b *bytes.Buffer, lines []string) {
	for i, l := range lines {
		if i > 0 {
			b.WriteString("  \n") // a line break within the paragraph
		}
		b.WriteString(escape(l))
	}
	b.WriteByte('\n')
}

func (p markdownPainter) section(b *bytes.Buffer, s section) error {
	if s.title != "" {
		fmt.Fprintf(b, "\n## %s\n", escape(s.title))
	}
	for _, l := range s.lines {
		fmt.Fprintf(b, "\n%s\n", escape(l))
	}
	if s.table != nil {
		b.WriteByte('\n')
		if err := p.table(b, s.table); err != nil {
			return err
		}
	}
	for i, n := range s.notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "- %s\n", escape(n))
	}
	return nil
}

func (p markdownPainter) claims(b *bytes.Buffer, claims []bench.Claim) error {
	t := &table{header: []string{"id", "claim", "book", "measured", "holds if", "holds"}, left: 6}
	for _, c := range claims {
		t.rows = append(t.rows, append(cells(fmt.Sprint(c.ID), clean(c.Text), clean(c.Published), clean(c.Measured),
			clean(c.Tolerance)), holds(c)))
	}
	return p.section(b, section{title: "Claims", lines: []string{tally(claims)}, table: t})
}

func (p markdownPainter) table(b *bytes.Buffer, t *table) error {
	text := func(c cell) string {
		if c.verdict == bad {
			return "**" + escape(c.text) + "**"
		}
		return escape(c.text)
	}
	oneLine := *t
	oneLine.header = make([]string, len(t.header))
	for i, name := range t.header {
		oneLine.header[i] = escape(strings.ReplaceAll(strings.ReplaceAll(name, "/\n", "/"), "\n", " "))
	}
	return render(b, &oneLine, renderer.NewMarkdown(), tw.PaddingDefault, text)
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

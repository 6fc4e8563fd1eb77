package view

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Width is how many columns a Text has: a wider table is cut in several. Only what cannot be broken exceeds it.
const Width = 100

const gap = "  "

// Text draws a document as plain text. Figures are left out.
func Text(w io.Writer, d *Doc) error {
	return drawText(w, d, Width, func(s string) string { return s })
}

// Terminal is Text for a terminal of so many columns, with verdicts in color unless NO_COLOR is set or TERM is dumb.
func Terminal(w io.Writer, d *Doc, width int) error {
	colors := map[tone]*color.Color{good: color.New(color.FgGreen), bad: color.New(color.FgRed)}
	return drawText(w, d, width, func(s string) string {
		if c := colors[toneOf(s)]; c != nil {
			return c.Sprint(s)
		}
		return s
	})
}

func drawText(w io.Writer, d *Doc, width int, paint func(string) string) error {
	d = d.each(printable)
	var b bytes.Buffer
	say := func(texts ...string) {
		for _, text := range texts {
			lines, _ := twwarp.WrapString(text, width)
			fmt.Fprintln(&b, strings.Join(lines, "\n"))
		}
	}
	if d.Title != "" {
		say(d.Title)
	}
	say(d.Facts...)
	if len(d.Findings) > 0 {
		fmt.Fprintln(&b)
	}
	for _, text := range d.Findings {
		say("- " + text)
	}
	for _, block := range d.Blocks {
		if block.Figure != nil {
			continue
		}
		if b.Len() > 0 {
			fmt.Fprintln(&b)
		}
		if block.Heading != "" {
			say(block.Heading)
		}
		if block.Table != nil {
			for i, part := range fitted(block.Table, width) {
				if i > 0 {
					fmt.Fprintln(&b)
				}
				if err := part.text(&b, paint); err != nil {
					return fmt.Errorf("draw a table: %w", err)
				}
			}
		}
		say(block.Note...)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// fitted breaks longer texts into lines until the table fits, else cuts it in several, which all have its first column.
func fitted(t *Table, width int) (parts []*Table) {
	const shortest = 14 // of the lines of a cell
	for limit := 60; limit > shortest; limit -= 2 {
		if broken := t.broken(limit); broken.width() <= width {
			return []*Table{broken}
		}
	}
	t = t.broken(30)
	columns := []int{0}
	for i := 1; i < len(t.Headings); i++ {
		if wider := append(columns, i); len(columns) > 1 && t.pick(wider).width() > width {
			parts = append(parts, t.pick(columns))
			columns = []int{0, i}
		} else {
			columns = wider
		}
	}
	return append(parts, t.pick(columns))
}

// broken has texts broken at spaces into lines of so many characters, unless a word is longer, and headings shorter.
func (t *Table) broken(limit int) *Table {
	shown := t.each(func(s string) string {
		if utf8.RuneCountInString(s) <= limit {
			return s
		}
		lines, _ := twwarp.WrapString(s, limit)
		return strings.Join(lines, "\n")
	})
	for i, h := range t.Headings {
		if strings.HasSuffix(h, "/s") {
			continue
		}
		lines, _ := twwarp.WrapString(strings.ReplaceAll(h, "/", "/ "), max(8, widest(column(shown, i))))
		shown.Headings[i] = strings.ReplaceAll(strings.Join(lines, "\n"), "/ ", "/")
	}
	return shown
}

func (t *Table) width() int {
	total := -len(gap)
	for i, h := range t.Headings {
		total += widest(append(column(t, i), h)) + len(gap)
	}
	return total
}

func widest(texts []string) (most int) {
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			most = max(most, utf8.RuneCountInString(line))
		}
	}
	return most
}

func column(t *Table, i int) (cells []string) {
	for _, row := range t.Rows {
		cells = append(cells, row[i])
	}
	return cells
}

// trailing are the spaces at the end of a line, before the end of a color.
var trailing = regexp.MustCompile(` *(\x1b\[[0-9;]*m)? *\n$`)

// text draws a table without borders, columns two spaces apart: it looks the same in any terminal or mail.
func (t *Table) text(b *bytes.Buffer, paint func(string) string) error {
	style := tw.NewSymbolCustom("plain").WithRow("-").WithColumn("").WithCenter("-").WithMidLeft("").WithMidRight("")
	r := renderer.NewBlueprint(tw.Rendition{Borders: tw.BorderNone, Symbols: style, Settings: tw.Settings{
		Separators: tw.Separators{BetweenRows: tw.Off, BetweenColumns: tw.Off, ShowHeader: tw.On},
		Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On},
	}})
	var out bytes.Buffer
	if err := t.render(&out, r, tw.Padding{Right: gap, Overwrite: true}, paint); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		line = trailing.ReplaceAllString(line, "$1")
		if strings.Trim(line, "-") == "" { // the rule below the headings spans the last column's gap too
			line = strings.TrimSuffix(line, "--")
		}
		fmt.Fprintln(b, line)
	}
	return nil
}

// Markdown draws a document as GitHub-flavoured Markdown. Figures are left out.
func Markdown(w io.Writer, d *Doc) error {
	d = d.each(func(s string) string { return escape(printable(s)) })
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
		if block.Heading != "" {
			fmt.Fprintf(&b, "## %s\n\n", block.Heading)
		}
		if block.Table != nil {
			if err := block.Table.render(&b, renderer.NewMarkdown(), tw.PaddingDefault, emphasized); err != nil {
				return fmt.Errorf("draw a table: %w", err)
			}
		}
		for i, n := range block.Note {
			if i == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "- %s\n", n)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Markdown draws a table alone, without emphasis.
func (t *Table) Markdown(w io.Writer) error {
	escaped := t.each(func(s string) string { return escape(printable(s)) })
	return escaped.render(w, renderer.NewMarkdown(), tw.PaddingDefault, func(s string) string { return s })
}

func emphasized(s string) string {
	if toneOf(s) == bad {
		return "**" + s + "**"
	}
	return s
}

// markup is what Markdown gives a meaning, and noTag an escaped < that cannot open a tag, as in <200.
var (
	markup = regexp.MustCompile("[\\\\`*\\[\\]|<]")
	noTag  = regexp.MustCompile(`\\<([0-9 ]|$)`)
)

// escape keeps text from being read as markup.
func escape(s string) string { return noTag.ReplaceAllString(markup.ReplaceAllString(s, `\$0`), "<$1") }

// number is what columns that are aligned to the right hold: "1,234", "<0.001", "12.3 ms ±4%".
var number = regexp.MustCompile(`^[<>±-]*[0-9][0-9.,]*( ?[a-zA-Z]+|%)?( ±[0-9]+%)?$`)

// Numeric says of each column whether it holds numbers, and besides them nothing but none.
func (t *Table) Numeric() []bool {
	all := make([]bool, len(t.Headings))
	for i := range all {
		texts := slices.DeleteFunc(column(t, i), func(s string) bool { return s == none || s == "" })
		words := slices.ContainsFunc(texts, func(s string) bool { return !number.MatchString(s) })
		all[i] = len(texts) > 0 && !words
	}
	return all
}

// render draws a table by tablewriter. All columns are padded alike: else tablewriter 1.1.5 cuts cells off.
func (t *Table) render(w io.Writer, r tw.Renderer, padding tw.Padding, paint func(string) string) error {
	align := make([]tw.Align, len(t.Headings))
	for i, number := range t.Numeric() {
		align[i] = tw.AlignLeft
		if number {
			align[i] = tw.AlignRight
		}
	}
	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: padding},
	}
	out := tablewriter.NewTable(w, tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: section, Row: section}))
	out.Header(t.Headings)
	for _, row := range t.Rows {
		if err := out.Append(mapped(row, paint)); err != nil {
			return err
		}
	}
	return out.Render()
}

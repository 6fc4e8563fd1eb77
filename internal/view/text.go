package view

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/fatih/color"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Width is how many columns a Text has: a wider table is cut in several. Only commands,
// which are pasted whole, and tables with several long names are wider.
const Width = 100

const gap = "  "

// Text draws a document as plain text. Figures are left out.
func Text(w io.Writer, d *Doc) error {
	return drawText(w, d, Width, func(c Cell) string { return c.Text })
}

// Terminal is Text for a terminal of a width in columns, with verdicts in color unless
// NO_COLOR is set or TERM is dumb.
func Terminal(w io.Writer, d *Doc, width int) error {
	colors := map[Tone]color.Attribute{
		good: color.FgGreen, never: color.FgYellow, bad: color.FgRed, broken: color.FgRed,
	}
	return drawText(w, d, width, func(c Cell) string {
		if paint, ok := colors[c.Tone]; ok { // line by line, or a column beside it had the color too
			lines := mapped(strings.Split(c.Text, "\n"), func(s string) string { return color.New(paint).Sprint(s) })
			return strings.Join(lines, "\n")
		}
		return c.Text
	})
}

func drawText(w io.Writer, d *Doc, width int, paint func(Cell) string) error {
	d = d.each(shown)
	var b bytes.Buffer
	say := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				fmt.Fprintln(&b, wrapped(text, width))
			}
		}
	}
	say(d.Title)
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
		say(block.Heading)
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
		if block.Again != "" {
			fmt.Fprintf(&b, "%s\n  %s\n", playAgain, block.Again)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// playAgain stands before the command of a Block.
const playAgain = "Play it again:"

// fitted cuts a table in as many parts as a width demands. All have the columns
// that name its rows.
func fitted(t *Table, width int) (parts []*Table) {
	names := []int{0, 1, 2}[:t.names]
	columns := names
	for i := t.names; i < len(t.Headings); i++ {
		wider := slices.Concat(columns, []int{i})
		if len(columns) > t.names && t.pick(wider).broken(width).width() > width {
			parts = append(parts, t.pick(columns).broken(width))
			wider = slices.Concat(names, []int{i})
		}
		columns = wider
	}
	return append(parts, t.pick(columns).broken(width))
}

// broken is the table with prose broken into lines that are as long as a width allows,
// 16 columns at least. Other cells, such as names, are broken only where they would take
// more than half of the width.
func (t *Table) broken(width int) *Table {
	const (
		shortest = 16 // line of prose
		name     = 40 // that is never broken
	)
	t = t.each(func(s string) string { return s })
	for i, h := range t.Headings {
		for _, row := range t.Rows {
			if !slices.Contains(t.prose, h) {
				row[i].Text = wrapped(row[i].Text, max(name, width/2))
			}
		}
	}

	width = max(width, t.lines(shortest).width())
	return t.lines(width - sort.Search(width-shortest, func(n int) bool { return t.lines(width-n).width() <= width }))
}

// lines is the table with prose broken into lines of at most this many columns, and
// headings to fit cells.
func (t *Table) lines(limit int) *Table {
	shown := t.each(func(s string) string { return s })
	for i, h := range t.Headings {
		if slices.Contains(t.prose, h) {
			for _, row := range shown.Rows {
				row[i].Text = wrapped(row[i].Text, limit)
			}
		}
		if !strings.HasSuffix(h, "/s") {
			h = strings.ReplaceAll(h, "/", "/ ")
			word := min(widest(strings.Fields(h)), limit) // that is not cut
			h = wrapped(h, max(8, word, widest(shown.column(i))))
			shown.Headings[i] = strings.ReplaceAll(h, "/ ", "/")
		}
	}
	return shown
}

func (t *Table) width() int {
	total := -len(gap)
	for i, h := range t.Headings {
		total += widest(append(t.column(i), h)) + len(gap)
	}
	return total
}

func widest(texts []string) (most int) {
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			most = max(most, columns(line))
		}
	}
	return most
}

// trailing are the spaces at the end of a line, before and after the code that
// ends a color.
var trailing = regexp.MustCompile(` *(\x1b\[[0-9;]*m)? *\n$`)

// text draws a table without borders, columns two spaces apart: it looks the
// same in any terminal or mail.
func (t *Table) text(b *bytes.Buffer, paint func(Cell) string) error {
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
		if block.Heading != "" {
			fmt.Fprintf(&b, "## %s\n\n", block.Heading)
		}
		if block.Table != nil {
			if err := block.Table.render(&b, renderer.NewMarkdown(), tw.PaddingDefault, emphasized); err != nil {
				return fmt.Errorf("draw a table: %w", err)
			}
		}
		if len(block.Note) > 0 {
			fmt.Fprintf(&b, "\n- %s\n", strings.Join(block.Note, "\n- "))
		}
		if block.Again != "" {
			fmt.Fprintf(&b, "\n%s\n\n    %s\n", playAgain, block.Again)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func emphasized(c Cell) string {
	if c.Tone == bad || c.Tone == broken {
		return "**" + c.Text + "**"
	}
	return c.Text
}

// markup is what Markdown gives a meaning, and noTag an escaped < that cannot
// open a tag, as in <200.
var (
	markup = regexp.MustCompile("[\\\\`*\\[\\]|<]")
	noTag  = regexp.MustCompile(`\\<([0-9 ]|$)`)
)

// escape keeps text from being read as markup.
func escape(s string) string { return noTag.ReplaceAllString(markup.ReplaceAllString(s, `\$0`), "<$1") }

// number is what columns that are aligned to the right hold: "1,234", "<0.001",
// "12.3 ms ±4%".
var number = regexp.MustCompile(`^[<>±-]*[0-9][0-9.,]*( ?[a-zA-Z]+|%)?( ±[0-9]+%)?$`)

// Numeric says of each column whether it holds numbers, and besides them only
// "-" or nothing.
func (t *Table) Numeric() []bool {
	all := make([]bool, len(t.Headings))
	for i := range all {
		texts := slices.DeleteFunc(t.column(i), func(s string) bool { return s == none || s == "" })
		words := slices.ContainsFunc(texts, func(s string) bool { return !number.MatchString(s) })
		all[i] = len(texts) > 0 && !words
	}
	return all
}

// render draws a table with tablewriter. All columns are padded alike: otherwise
// tablewriter 1.1.5 cuts cells off.
func (t *Table) render(w io.Writer, r tw.Renderer, padding tw.Padding, paint func(Cell) string) error {
	sides := map[bool]tw.Align{true: tw.AlignRight, false: tw.AlignLeft}
	align := mapped(t.Numeric(), func(number bool) tw.Align { return sides[number] })
	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: padding},
	}
	out := tablewriter.NewTable(w, tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: section, Row: section}))
	out.Header(t.Headings)
	if err := out.Bulk(mapped(t.Rows, func(row []Cell) []string { return mapped(row, paint) })); err != nil {
		return err
	}
	return out.Render()
}

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
func Terminal(w io.Writer, d *Doc, width int) error { return drawText(w, d, width, colored) }

var colors = map[Tone]color.Attribute{
	good:   color.FgGreen,
	never:  color.FgYellow,
	bad:    color.FgRed,
	broken: color.FgRed,
}

// colored is the text of a cell in the color of its tone: line by line, or the columns
// beside it had the color, too.
func colored(c Cell) string {
	attribute, has := colors[c.Tone]
	if !has {
		return c.Text
	}

	lines := strings.Split(c.Text, "\n")
	for i, line := range lines {
		lines[i] = color.New(attribute).Sprint(line)
	}
	return strings.Join(lines, "\n")
}

// drawText writes a document as text of a width, its figures left out: a terminal has none.
// paint may color a cell. All is written at once, so that an error leaves no half a report.
func drawText(w io.Writer, d *Doc, width int, paint func(Cell) string) error {
	d = d.each(shown)
	var b bytes.Buffer
	writeLines(&b, width, d.Title)
	writeLines(&b, width, d.Facts...)

	if len(d.Findings) > 0 {
		fmt.Fprintln(&b)
	}
	for _, text := range d.Findings {
		writeLines(&b, width, "- "+text)
	}

	// An empty line stands between blocks, but not before the first thing of all.
	for _, block := range d.Blocks {
		if block.Figure != nil {
			continue
		}
		if b.Len() > 0 {
			fmt.Fprintln(&b)
		}
		if err := block.text(&b, width, paint); err != nil {
			return fmt.Errorf("draw a table: %w", err)
		}
	}

	_, err := w.Write(b.Bytes())
	return err
}

func (block Block) text(b *bytes.Buffer, width int, paint func(Cell) string) error {
	writeLines(b, width, block.Heading)
	if block.Table != nil {
		for i, part := range fitted(block.Table, width) {
			if i > 0 {
				fmt.Fprintln(b)
			}
			if err := part.text(b, paint); err != nil {
				return err
			}
		}
	}

	writeLines(b, width, block.Note...)
	if block.Again != "" {
		fmt.Fprintf(b, "%s\n  %s\n", playAgain, block.Again)
	}
	return nil
}

// writeLines writes texts, each broken into lines. Empty ones are left out.
func writeLines(b *bytes.Buffer, width int, texts ...string) {
	for _, text := range texts {
		if text != "" {
			fmt.Fprintln(b, wrapped(text, width))
		}
	}
}

// playAgain stands before the command of a Block.
const playAgain = "Play it again:"

// fitted cuts a table in as many parts as a width demands. All have the columns
// that name its rows, three at most, and one more at least, even if that is too wide.
func fitted(t *Table, width int) (parts []*Table) {
	names := []int{0, 1, 2}[:t.names]
	columns := names
	for i := t.names; i < len(t.Headings); i++ {
		wider := slices.Concat(columns, []int{i})
		tooWide := t.pick(wider).broken(width).width() > width
		if tooWide && len(columns) > t.names {
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
		shortest = 16 // columns of a line of prose, at least
		name     = 40 // columns of a name that is never broken, at most
	)
	t = t.copied()
	for i, h := range t.Headings {
		for _, row := range t.Rows {
			if !slices.Contains(t.prose, h) {
				row[i].Text = wrapped(row[i].Text, max(name, width/2))
			}
		}
	}

	// The longest lines with which the table is still narrow enough: longer ones make no narrower
	// table. Search finds the least of something: so it counts down from lines that fill the
	// width. Where even the shortest lines are too wide, the width grows to theirs, and the
	// shortest are found.
	width = max(width, t.lines(shortest).width())
	less := sort.Search(width-shortest, func(less int) bool { return t.lines(width-less).width() <= width })
	return t.lines(width - less)
}

// lines is the table with prose broken into lines of at most this many columns, and
// headings to fit cells. It is not applied to its own result: there prose no longer has the
// names of the headings, which are broken.
func (t *Table) lines(limit int) *Table {
	broken := t.copied()
	for i, heading := range t.Headings {
		if slices.Contains(t.prose, heading) {
			for _, row := range broken.Rows {
				row[i].Text = wrapped(row[i].Text, limit)
			}
		}

		// narrow would break a rate, such as purchases/s, behind its slash.
		if !strings.HasSuffix(heading, "/s") {
			broken.Headings[i] = narrow(heading, limit, widest(broken.column(i)))
		}
	}
	return broken
}

// narrow is a heading in lines as wide as the cells below it. It is broken at spaces and
// behind slashes. A word is not cut unless it is longer than the limit.
func narrow(heading string, limit, cells int) string {
	const shortest = 8 // line
	spaced := strings.ReplaceAll(heading, "/", "/ ")
	word := min(widest(strings.Fields(spaced)), limit)
	return strings.ReplaceAll(wrapped(spaced, max(shortest, word, cells)), "/ ", "/")
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

// plainTable is a table without borders, columns a gap apart: it looks the same in any
// terminal or mail.
var plainTable = tw.Rendition{
	Borders: tw.BorderNone,
	Symbols: tw.NewSymbolCustom("plain").WithRow("-").WithColumn(gap).WithCenter(strings.Repeat("-", len(gap))),
}

// text draws a table as plain text. Each line ends with its last word: tablewriter pads
// the last column, too.
func (t *Table) text(b *bytes.Buffer, paint func(Cell) string) error {
	var out bytes.Buffer
	if err := t.render(&out, renderer.NewBlueprint(plainTable), tw.PaddingNone, paint); err != nil {
		return err
	}

	for line := range strings.Lines(out.String()) {
		fmt.Fprintln(b, strings.TrimRight(line, " \n"))
	}
	return nil
}

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

// render draws a table with tablewriter, numbers at the right. Cells are broken into lines
// already, see wrapped.
func (t *Table) render(w io.Writer, r tw.Renderer, padding tw.Padding, paint func(Cell) string) error {
	sides := make([]tw.Align, len(t.Headings))
	for i, numbers := range t.Numeric() {
		sides[i] = tw.AlignLeft
		if numbers {
			sides[i] = tw.AlignRight
		}
	}

	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: sides},
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

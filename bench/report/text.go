package report

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// drawText draws plain text: no borders, columns two spaces apart, ASCII but for ±, so that it looks the same
// in any terminal, mail or code block.
func drawText(b *bytes.Buffer, d *Document, opts Options) error {
	p := textPainter{color: opts.Color && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	p.paragraphs(b, d.head...)
	if len(d.findings) > 0 {
		p.paragraphs(b, "", inShort+strings.Join(d.findings, " "))
	}
	for _, s := range d.sections {
		if err := p.section(b, s); err != nil {
			return err
		}
	}
	return nil
}

type textPainter struct{ color bool }

func (p textPainter) paragraphs(b *bytes.Buffer, texts ...string) {
	for _, text := range texts {
		fmt.Fprintln(b, strings.Join(wrap(text, Width), "\n"))
	}
}

// wrap breaks a text at spaces into lines of about the same length that are not longer than width, unless a word is.
func wrap(text string, width int) []string {
	lines, _ := twwarp.WrapString(text, width)
	return lines
}

// hang breaks a line at spaces where it is wider than Width, and keeps the spaces elsewhere. What follows stands farther
// right than the line begins.
func hang(line string) (parts []string) {
	text := strings.TrimLeft(line, " ")
	indent := strings.Repeat(" ", len(line)-len(text)) + gap
	for utf8.RuneCountInString(line) > Width {
		room := string([]rune(line)[:Width+1])
		at := strings.LastIndex(room, " ")
		if at <= len(indent) { // one long word
			if at = strings.Index(line[len(room):], " "); at < 0 {
				break
			}
			at += len(room)
		}
		parts = append(parts, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(parts, line)
}

func (p textPainter) section(b *bytes.Buffer, s section) error {
	if s.title != "" {
		b.WriteByte('\n')
		p.paragraphs(b, s.title)
	}
	if s.prose != nil {
		for _, line := range s.prose {
			for _, c := range line {
				b.WriteString(p.paint(c))
			}
			b.WriteByte('\n')
		}
		p.meaning(b, s)
		return nil
	}
	p.paragraphs(b, s.lines...)
	if s.table != nil {
		shown, lost := narrow(s.table)
		if err := p.table(b, shown); err != nil {
			return err
		}
		if len(lost) > 0 {
			p.paragraphs(b, "(No room for: "+strings.Join(lost, ", ")+"; the Markdown has them.)")
		}
	}
	p.paragraphs(b, s.notes...)
	p.meaning(b, s)
	return nil
}

// meaning ends a section.
func (p textPainter) meaning(b *bytes.Buffer, s section) {
	if s.meaning != "" {
		p.paragraphs(b, inWords+s.meaning)
	}
}

// paint colors a verdict.
func (p textPainter) paint(c cell) string {
	const green, red, reset = "\x1b[32m", "\x1b[31m", "\x1b[0m"
	switch {
	case p.color && c.tone == good:
		return green + c.text + reset
	case p.color && c.tone == bad:
		return red + c.text + reset
	}
	return c.text
}

// paintLast colors a line's last cell, which is where verdicts stand. It is done on the finished line, so that color
// cannot move anything.
func (p textPainter) paintLast(line string, row []cell) string {
	last := row[len(row)-1]
	if before, ok := strings.CutSuffix(line, last.text); ok {
		return before + p.paint(last)
	}
	return line
}

// fitted is a section whose text has paragraphs in place of a table that is too wide for it.
func fitted(s section, paragraphs ...string) section {
	shown, _ := narrow(s.table)
	if _, total := measure(shown); total <= Width {
		return s
	}
	s.prose = [][]cell{}
	for _, text := range slices.Concat(s.lines, paragraphs, s.notes) {
		for _, line := range wrap(text, Width) {
			s.prose = append(s.prose, cells(line))
		}
	}
	return s
}

// narrow leaves out what a table can spare until it is not wider than a text, and names that.
func narrow(t *table) (shown *table, lost []string) {
	widths, total := measure(t)
	here := make([]int, len(t.header)) // the columns that stay
	for i := range here {
		here[i] = i
	}
	for total > Width {
		most := slices.MaxFunc(here, func(a, b int) int { return t.header[a].spare - t.header[b].spare })
		if t.header[most].spare == 0 {
			break
		}
		total -= widths[most]
		here = slices.DeleteFunc(here, func(i int) bool { return i == most })
		lost = append(lost, oneLine(t.header[most].text))
	}
	if len(lost) == 0 {
		return t, nil
	}
	shown = &table{rows: make([][]cell, len(t.rows))}
	for _, i := range here {
		shown.header = append(shown.header, t.header[i])
		for j, row := range t.rows {
			shown.rows[j] = append(shown.rows[j], row[i])
		}
	}
	return shown, lost
}

// measure returns how wide each column of a table is, with the gap after it, and how wide the whole.
func measure(t *table) (widths []int, total int) {
	total = -len(gap)
	for i, h := range t.header {
		width := 0
		for line := range strings.SplitSeq(h.text, "\n") {
			width = max(width, utf8.RuneCountInString(line))
		}
		for _, row := range t.rows {
			width = max(width, utf8.RuneCountInString(row[i].text))
		}
		widths = append(widths, width+len(gap))
		total += width + len(gap)
	}
	return widths, total
}

// oneLine is the text of a heading without breaks.
func oneLine(text string) string {
	return strings.NewReplacer("/\n", "/", "\n", " ").Replace(text)
}

// gap stands between two columns.
const gap = "  "

func (p textPainter) table(b *bytes.Buffer, t *table) error {
	var out bytes.Buffer
	style := tw.NewSymbolCustom("plain").WithRow("-").WithColumn("").WithCenter("-").WithMidLeft("").WithMidRight("")
	r := renderer.NewBlueprint(tw.Rendition{
		Borders: tw.BorderNone,
		Symbols: style,
		Settings: tw.Settings{
			Separators: tw.Separators{BetweenRows: tw.Off, BetweenColumns: tw.Off, ShowHeader: tw.On},
			Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On},
		},
	})
	if err := render(&out, t, r, tw.Padding{Right: gap, Overwrite: true},
		func(c cell) string { return c.text }); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	body := len(lines) - len(t.rows)
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		switch {
		case i == body-1: // the rule below the header spans the last column's gap too
			line = strings.TrimSuffix(line, "--")
		case i >= body:
			line = p.paintLast(line, t.rows[i-body])
		}
		fmt.Fprintln(b, line)
	}
	return nil
}

// render draws a table with one of tablewriter's renderers. All columns are padded alike: with a padding per column,
// tablewriter 1.1.5 cuts cells off.
func render(b *bytes.Buffer, t *table, r tw.Renderer, padding tw.Padding, paint func(cell) string) error {
	header, align := make([]string, len(t.header)), make([]tw.Align, len(t.header))
	for i, h := range t.header {
		header[i], align[i] = h.text, tw.AlignRight
		if h.left {
			align[i] = tw.AlignLeft
		}
	}
	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: padding},
	}
	out := tablewriter.NewTable(b, tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: section, Row: section}))
	out.Header(header)
	for _, row := range t.rows {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = paint(c)
		}
		if err := out.Append(texts); err != nil {
			return err
		}
	}
	return out.Render()
}

package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/marketsim/marketsim/bench"
)

// textPainter draws plain text: no borders, columns two spaces apart, ASCII only, so that it looks the same in any
// terminal, mail or code block.
type textPainter struct{ color bool }

func (p textPainter) head(b *bytes.Buffer, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(b, l)
	}
}

func (p textPainter) section(b *bytes.Buffer, s section) error {
	if s.title != "" {
		fmt.Fprintf(b, "\n%s\n", s.title)
	}
	for _, l := range s.lines {
		fmt.Fprintln(b, l)
	}
	if s.table != nil {
		if err := p.table(b, s.table); err != nil {
			return err
		}
	}
	for _, n := range s.notes {
		fmt.Fprintln(b, n)
	}
	return nil
}

func (p textPainter) claims(b *bytes.Buffer, claims []bench.Claim) error {
	fmt.Fprintf(b, "\nClaims\n%s\n", tally(claims))
	for _, c := range claims {
		fmt.Fprintf(b, "%d. %s: %s\n", c.ID, clean(c.Text), p.paint(holds(c)))
		for _, part := range []struct{ name, text string }{
			{"book", c.Published}, {"measured", c.Measured}, {"holds if", c.Tolerance},
		} {
			fmt.Fprintf(b, "   %-8s  %s\n", part.name, clean(part.text))
		}
	}
	return nil
}

// paint colors a verdict.
func (p textPainter) paint(c cell) string {
	const green, red, reset = "\x1b[32m", "\x1b[31m", "\x1b[0m"
	switch {
	case p.color && c.verdict == good:
		return green + c.text + reset
	case p.color && c.verdict == bad:
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
	if err := render(&out, t, r, tw.Padding{Right: gap, Overwrite: true}, func(c cell) string { return c.text }); err != nil {
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
	align := make([]tw.Align, len(t.header))
	for i := range t.header {
		align[i] = tw.AlignRight
		if i < t.left || t.lastLeft && i == len(t.header)-1 {
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
	out.Header(t.header)
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

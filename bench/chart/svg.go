package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// class is that of every picture, so that its styles touch nothing else on a page.
const class = "marketsim-chart"

// SVG writes the picture as a document of its own, which can stand inside HTML, too. It has a title and a description,
// scales to the room it gets, and has its colours from CSS variables (--chart-ink and so on), with other values where the
// reader prefers dark pages. Paper is white. A page may set the variables on [class] itself.
func (f Figure) SVG(w io.Writer) error {
	canvas := &measuring{Canvas: vgsvg.New(width, f.height())}
	f.draw(draw.New(canvas))
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return fmt.Errorf("draw %s: %w", f.Name, err)
	}
	_, body, _ := strings.Cut(drawn.String(), "<svg")
	_, body, _ = strings.Cut(body, ">")
	if _, err := io.WriteString(w, f.prologue()+canvas.fit(variables(body))); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}

// prologue is what stands before what is drawn.
func (f Figure) prologue() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" role="img" viewBox="0 0 %.5g %.5g">
<title>%s</title>
<desc>%s</desc>
<style>%s</style>`, class, float64(width), float64(f.height()), escaped(f.Title), escaped(f.Alt), sheet())
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // into memory
	return b.String()
}

// sheet is the style sheet of a picture.
func sheet() string {
	var light, dark strings.Builder
	for _, s := range shades() {
		fmt.Fprintf(&light, "--chart-%s:%s;", s.name, s.light)
		fmt.Fprintf(&dark, "--chart-%s:%s;", s.name, s.dark)
	}
	return fmt.Sprintf(`
.%s{%sfont-family:system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
@media screen and (prefers-color-scheme:dark){.%[1]s{%[3]s}}
`, class, light.String(), dark.String())
}

// measuring is a canvas that keeps the width of each text. A browser has letters of other widths: without the width it
// would let a text run into the next.
type measuring struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (m *measuring) FillString(face font.Face, at vg.Point, text string) {
	m.widths = append(m.widths, face.Width(text))
	m.Canvas.FillString(face, at, text)
}

// fit gives each text the width that it was drawn with. No text holds the letters that begin one: its own are escaped.
func (m *measuring) fit(body string) string {
	parts := strings.Split(body, "<text ")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		fmt.Fprintf(&b, `<text textLength="%.5g" lengthAdjust="spacingAndGlyphs" %s`, float64(m.widths[i]), part)
	}
	return b.String()
}

var (
	styles  = regexp.MustCompile(`style="[^"]*"`) // and nothing that a text holds: its quotes are escaped
	hex     = regexp.MustCompile(`#[0-9A-F]{6}`)
	letters = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;`)
)

// variables puts the variable of its shade in the place of each colour, and leaves the choice of letters to the root.
func variables(body string) string {
	return styles.ReplaceAllStringFunc(body, func(style string) string {
		return hex.ReplaceAllStringFunc(letters.ReplaceAllString(style, ""), func(c string) string {
			if s, found := nearest(c); found {
				return "var(--chart-" + s.name + ")"
			}
			return c
		})
	})
}

// nearest is the shade of a colour. The canvas rounds colours, those that are faint by several steps.
func nearest(c string) (shade, bool) {
	of := shade{light: c}.color()
	for _, s := range shades() {
		v := s.color()
		if near(v.R, of.R) && near(v.G, of.G) && near(v.B, of.B) {
			return s, true
		}
	}
	return shade{}, false
}

func near(a, b uint8) bool { return max(a, b)-min(a, b) <= 2 }

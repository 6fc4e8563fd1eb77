package view_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

// TestBook: the figure has the book's nine rows with what was measured and published,
// where the book prints bounds it shows bounds, and where nothing was measured the
// published number alone.
func TestBook(t *testing.T) {
	f := view.BookFigure(reproduced()) // which lacks the last row
	if len(f.Panels) != 3 || len(f.Panels[0].Dots) != 9 {
		t.Fatalf("panels %v", f.Panels)
	}

	const (
		last    = "5 listers, 5 buyers: fine"
		retries = "Retries per purchase"
	)
	for _, c := range []struct {
		panel                string
		row                  string
		measured             float64
		published            float64
		below, above, absent bool
	}{
		{panel: retries, row: "1 lister, 1 buyer: watch", measured: 0.25, published: 80.0 / 27},
		{panel: retries, row: "5 listers, 1 buyer: watch", measured: 0.25, published: 250, above: true},
		{panel: retries, row: "5 listers, 1 buyer: coarse", measured: 0.25, published: 10.0 / 13000, below: true},
		{panel: retries, row: last, published: 0, absent: true},
		{panel: "Purchases in 60 s", row: "1 lister, 1 buyer: watch", measured: 18_000, published: 27_000},
		{panel: "Purchases in 60 s", row: "5 listers, 5 buyers: watch", measured: 18_000, published: 600, below: true},
		{panel: "Average wait for a purchase", row: "5 listers, 5 buyers: coarse", published: 14, absent: true},
		{panel: "Average wait for a purchase", row: last, published: 3, below: true, absent: true},
	} {
		p := f.Panels[slices.IndexFunc(f.Panels, func(p view.Panel) bool { return p.Title == c.panel })]
		dot := p.Dots[slices.IndexFunc(p.Dots, func(d view.Dot) bool { return d.Label == c.row })]
		want := view.Published{Value: c.published, Below: c.below, Above: c.above}
		if *dot.Published != want || !c.absent && dot.Value != c.measured {
			t.Errorf("%s of %s is %v beside %v; want %v beside %v",
				c.panel, c.row, dot.Value, *dot.Published, c.measured, want)
		}
		if c.row == last && !math.IsNaN(dot.Value) {
			t.Errorf("%s of %s is %v, and nothing was measured", c.panel, c.row, dot.Value)
		}
	}

	var drawn bytes.Buffer
	testkit.Succeeds(t, view.SVG(&drawn, f))
	for _, want := range []string{"&gt;268", "&lt;600", "498 ms", "18,000", ">published<", ">0<"} {
		if !strings.Contains(drawn.String(), want) {
			t.Errorf("%q is not drawn:\n%s", want, drawn.String())
		}
	}
	if figures := view.Figures(compared()); figures[0].Name == "book" {
		t.Error("a run of other rows has a figure of the book")
	}
}

// TestFigureFirst: a report begins with its figures, that of a reproduction
// with the book's.
func TestFigureFirst(t *testing.T) {
	for name, d := range map[string]*view.Doc{
		"book": view.Run(reproduced()), "throughput": view.Run(compared()), "sweep": view.Run(swept()),
	} {
		if f := d.Blocks[0].Figure; f == nil || f.Name != name {
			t.Errorf("the report of %s begins with %q", name, d.Blocks[0].Heading)
		}
	}
}

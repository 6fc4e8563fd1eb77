package report

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
)

// HGRM is a format that only a run has: the percentiles of the waits of one row in milliseconds, as HdrHistogram writes
// and its plotter reads them (https://hdrhistogram.github.io/HdrHistogram/plotFiles.html). Rounds of one row are put
// together. The plotter draws a line for each file, so several rows are several files: see [Document.Only].
const HGRM = "hgrm"

// ErrOneRow is returned, wrapped, where HGRM is asked for of anything but one row in which something was bought.
var ErrOneRow = errors.New("the format hgrm shows the waits of one row")

// ticks is how many lines there are for each halving of the distance to 100%: the library's own choice for its examples.
const ticks = 5

// hgrm draws the waits of the only row of a run.
func hgrm(b *bytes.Buffer, res *result.Run) error {
	groups := res.Same(res.Rows)
	switch {
	case len(groups) == 0:
		return fmt.Errorf("%w: no row was measured", ErrOneRow)
	case len(groups) > 1:
		return fmt.Errorf("%w, and there are %d: name one with --row, such as '%s'", ErrOneRow, len(groups),
			clean(groups[0][0].Name()))
	}
	var all *hdrhistogram.Histogram
	for _, r := range groups[0] {
		h, err := hdrhistogram.Decode([]byte(r.Histograms.Purchase))
		if err != nil {
			return fmt.Errorf("the waits of %s, trial %d: %w", clean(r.Name()), r.Trial, err)
		}
		if all == nil {
			all = h
		} else {
			all.Merge(h)
		}
	}
	if all.TotalCount() == 0 {
		return fmt.Errorf("%w: nothing was bought in %s", ErrOneRow, clean(groups[0][0].Name()))
	}
	from := "the first try"
	if groups[0][0].Open != nil {
		from = "when the order was due"
	}
	fmt.Fprintf(b, "#[%s: ms from %s to the end of the purchase]\n", clean(groups[0][0].Name()), from)
	_, err := all.PercentilesPrint(b, ticks, 1000)
	return err
}

// Only is the document of the rows that have a name, such as "fine 5x5" or "fine 5x5 at 2500/s", of a document of a run.
func (d *Document) Only(name string) (*Document, error) {
	if d.run == nil {
		return nil, fmt.Errorf("only a run has rows: %q cannot be picked", name)
	}
	some := *d.run
	some.Rows, some.Claims, some.Comparisons = nil, nil, nil
	some.Manifest.Config.Reproduces = nil
	for _, r := range d.run.Rows {
		if r.Name() == name {
			some.Rows = append(some.Rows, r)
		}
	}
	if len(some.Rows) == 0 {
		text := fmt.Sprintf("there is no row %q", name)
		if len(d.run.Rows) > 0 {
			text += "; there is " + clean(d.run.Rows[0].Name())
		}
		return nil, fmt.Errorf("%s", text)
	}
	return Run(&some), nil
}

package page

import (
	"bytes"
	"fmt"
	"html/template"

	"github.com/marketsim/marketsim/bench/chart"
	"github.com/marketsim/marketsim/bench/result"
)

// A figure is a picture, and what it shows in words.
type figure struct {
	ID, Alt string
	SVG     template.HTML
}

// figures are the pictures of a run.
func figures(run *result.Run, id string) ([]figure, error) {
	var all []figure
	for i, f := range chart.Of(run) {
		var drawn bytes.Buffer
		if err := f.SVG(&drawn); err != nil {
			return nil, err
		}
		all = append(all, figure{ID: fmt.Sprintf("%s-f%d", id, i+1), Alt: f.Alt, SVG: template.HTML(drawn.String())})
	}
	return all, nil
}

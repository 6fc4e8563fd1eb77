package view

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// pictured is a run of six rounds of points, whose purchases/s are what rate says,
// a little more in each round.
func pictured(points []result.Point, rate func(result.Point) float64) *runs.Run {
	margin := 0.05
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	run.Manifest.Config = runs.Config{Points: points, Trials: 6, Margin: &margin}

	for trial := 1; trial <= 6; trial++ {
		for _, p := range points {
			perSecond := rate(p) * (1 + float64(trial)/100)
			row := result.Row{
				Point:         p,
				Trial:         trial,
				Status:        stored.Complete,
				Seconds:       4,
				Bought:        int64(4 * perSecond),
				CourseSeconds: 1,
				Course: []int64{
					int64(perSecond), int64(0.9 * perSecond), int64(1.2 * perSecond), int64(perSecond),
				},
				CourseP50MS: []float64{4000 / perSecond, 4500 / perSecond, 3500 / perSecond, 4000 / perSecond},
				CourseP99MS: []float64{800_000 / perSecond, 1e6 / perSecond, 7e5 / perSecond, 9e5 / perSecond},
				Audit:       result.AuditSummary{Done: true, OK: true},
				WaitMS: result.Latency{
					Mean:  5000 / perSecond,
					P50:   4000 / perSecond,
					P90:   9000 / perSecond,
					P99:   900_000 / perSecond,
					P999:  990_000 / perSecond,
					Count: int64(4 * perSecond),
				},
			}

			if p.Rate > 0 {
				row.Open = &result.OpenLoop{Due: int64(4 * p.Rate), Done: int64(4 * min(p.Rate, perSecond))}
			}
			run.Rows = append(run.Rows, row)
		}
	}
	return run
}

func points(strategies []string, places ...result.Point) (all []result.Point) {
	for _, p := range places {
		for _, p.Strategy = range strategies {
			all = append(all, p)
		}
	}
	return all
}

func speed(p result.Point) float64 {
	return map[string]float64{
		three[0]: 9000, three[1]: 3000, three[2]: 70,
	}[p.Strategy] / (1 + p.HoldMS)
}

var three = []string{"lua", "fine:set-px:ttl=500ms:poll=1ms:cap=20ms<&>", "watch"}

// drawn are the runs that have all figures between them.
func drawn(t *testing.T) map[string]*runs.Run {
	t.Helper()
	five := result.Point{Mix: result.Mix{Sellers: 5, Buyers: 5}}
	fifty := result.Point{Mix: result.Mix{Sellers: 50, Buyers: 50}}

	axes, err := runs.ParseAxes([]string{"clients=1,2,4,8", "hold=0s,1ms"})
	if err != nil {
		t.Fatal(err)
	}
	swept := pictured(runs.Expand(result.Point{}, three, axes), speed)
	swept.Manifest.Config.Axes = axes

	slow, fast := five, five
	slow.Rate, fast.Rate = 1000, 5000
	open := pictured(points(three, slow, fast), speed)
	open.Manifest.Config.SLOMS = 10

	return map[string]*runs.Run{
		"compared": pictured(points(three, five, fifty), speed),
		"swept":    swept,
		"open":     open,
	}
}

// TestFigures: each run has the figures that it has something for, each is
// well-formed, and shows every strategy.
func TestFigures(t *testing.T) {
	for name, want := range map[string][]string{
		"compared": {"throughput", "latency", "course", "waits"}, "swept": {"sweep"},
		"open": {"rate", "latency", "course", "waits"},
	} {
		var names []string
		for _, f := range Figures(drawn(t)[name]) {
			names = append(names, f.Name)
			var b bytes.Buffer
			if err := SVG(&b, f); err != nil {
				t.Fatal(err)
			}
			texts := svgTexts(t, b.Bytes())

			d := f.drawing()
			for _, words := range d.Texts {
				width := letter * float64(len(words.Text))
				left := words.X - width*map[string]float64{"start": 0, "middle": 0.5, "end": 1}[words.Anchor]
				if left < 0 || left+width > d.Width {
					t.Errorf("the figure %s of the run %s cuts %q", f.Name, name, words.Text)
				}
			}

			// Of other figures axis is "", which every text contains.
			axis := map[string]string{"latency": "percentile of the waits"}[f.Name]
			for _, strategy := range append(slices.Clone(three), axis) {
				if !strings.Contains(texts, strategy) {
					t.Errorf("the figure %s of the run %s does not name %s:\n%s", f.Name, name, strategy, texts)
				}
			}

			if bytes.Contains(b.Bytes(), []byte("NaN")) || bytes.Contains(b.Bytes(), []byte("Inf")) {
				t.Errorf("the figure %s of the run %s has a place that is none", f.Name, name)
			}
		}

		if !slices.Equal(names, want) {
			t.Errorf("the run %s has the figures %q, want %q", name, names, want)
		}
	}

	if figures := Figures(&runs.Run{}); len(figures) > 0 {
		t.Errorf("a run without rows has the figures %v", figures)
	}
}

// svgTexts are the texts of a picture, which has to be well-formed XML.
func svgTexts(t *testing.T, svg []byte) string {
	t.Helper()
	var all []string
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(all, "\n")
		case err != nil:
			t.Fatalf("%v in %s", err, svg)
		}

		if data, ok := token.(xml.CharData); ok {
			all = append(all, string(data))
		}
	}
}

// TestPlaces: a dot stands where its value is on the scale, and its interval
// ends where it should.
func TestPlaces(t *testing.T) {
	dots := []Dot{
		{Label: "a", Value: 10, Low: 1, High: 100},
		{Label: "b", Value: 100, Low: math.NaN(), High: math.NaN()},
	}
	f := Figure{X: Scale{Log: true, Mark: 1}, Panels: []Panel{{Dots: dots}}}

	d := f.drawing()
	if len(d.Marks) != 2 || d.Marks[0].X >= d.Marks[1].X || d.Marks[0].Y >= d.Marks[1].Y {
		t.Fatalf("marks %v", d.Marks)
	}

	i := slices.IndexFunc(d.Paths, func(p path) bool { return p.Class == "interval c0" })
	at := fmt.Sprintf("L%v %v", d.Marks[1].X, d.Marks[0].Y)
	if i < 0 || !strings.HasSuffix(d.Paths[i].D, at) {
		t.Errorf("the interval of a does not end below b, at %s: %v", at, d.Paths)
	}

	x := newRuler(f.X, []float64{10, 1, 100}, 0, 100)
	if low, middle, high := x.at(1), x.at(10), x.at(100); math.Abs(middle-(low+high)/2) > 1e-9 {
		t.Errorf("on a logarithmic scale 10 stands at %v between %v and %v", middle, low, high)
	}
}

// TestZero: a logarithmic scale that has a place for 0 shows it apart from, and before,
// all other values; others leave it out.
func TestZero(t *testing.T) {
	values := []float64{0, 0.01, 5}
	r := newRuler(Scale{Log: true, Zero: true}, values, 100, 0) // from the bottom upwards
	marks := r.marks()
	apart := r.at(0) == 100 && r.at(0.01) <= 100-zeroGap && r.at(5) >= 0
	if !apart || marks[0].At != 0 || len(marks) < 3 {
		t.Errorf("0 stands at %v, 0.01 at %v, 5 at %v; marks %v", r.at(0), r.at(0.01), r.at(5), marks)
	}

	for _, s := range []Scale{{Log: true}, {Log: true, Zero: true}} {
		if r := newRuler(s, values[1:], 0, 100); r.zero || slices.Contains(r.marks(), Tick{}) {
			t.Errorf("without a 0 it has the marks %v", r.marks())
		}
	}

	if (Scale{Log: true}).drawable(0) {
		t.Error("0 is drawable on a logarithmic scale")
	}
}

// TestTicks: some, round, and within the scale.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		scale     Scale
		low, high float64
	}{
		{Scale{}, 0, 9450}, {Scale{}, 0, 1}, {Scale{}, 0, 0.003},
		{Scale{Log: true}, 0.9, 1.1}, {Scale{Log: true}, 2, 60_000},
		{Scale{Log: true}, 0.05, 3}, {Scale{Log: true}, 1e-9, 1e9}, {Scale{Log: true}, 5e-324, 1e308},
	} {
		ticks := c.scale.ticks(c.low, c.high)
		some := len(ticks) >= 1 && len(ticks) <= 12
		within := some && ticks[0] >= c.low && ticks[len(ticks)-1] <= c.high
		if !within || !slices.IsSorted(ticks) {
			t.Errorf("%v to %v has the ticks %v", c.low, c.high, ticks)
		}
	}
}

package view

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
	"github.com/marketsim/marketsim/verify"
)

// A Figure is dots with intervals or lines, in panels with the same axes, or a
// schedule with a lifeline per client.
type Figure struct {
	Name  string // by which --figure asks for it
	Title string
	Note  string // what it shows
	X, Y  Scale  // dots have no Y: they are listed below each other

	Panels   []Panel
	Schedule *verify.Diagram // in place of panels
}

// A Scale is what an axis of a figure measures.
type Scale struct {
	Label string
	Unit  result.Unit
	Log   bool    // without 0, unless Zero
	Zero  bool    // a logarithmic scale has a place for 0, apart from the others
	Mark  float64 // a value to draw a line at; 0: none
}

// A Panel is a part of a figure, with dots or with lines.
type Panel struct {
	Title string
	X     *Scale // of its dots; nil: the figure's
	Dots  []Dot
	Lines []Curve
}

// A Dot is one value with its label, and its interval; Low and High are
// infinite where there is none. What is NaN is left out.
type Dot struct {
	Label            string
	Value, Low, High float64
	Published        *Published // what others published beside it; nil: nothing
}

// Published is a number as others printed it, which may be a bound of it.
type Published struct {
	Value        float64
	Below, Above bool // it is printed as less, or more, than Value
}

// A Curve is the values of one strategy; what is NaN is left out.
type Curve struct {
	Label string
	X, Y  []float64
}

// Figures are those that a run has something for.
func Figures(run *result.Run) []Figure {
	all := []Figure{Book(run), throughput(run), latencies(run), rates(run)}
	if len(run.Manifest.Config.Axes) > 0 {
		all = []Figure{swept(run), rates(run)}
	}
	return slices.DeleteFunc(all, func(f Figure) bool { return len(f.Panels) == 0 })
}

const medians = "Medians of the rounds, with their 95% intervals where there are enough."

// throughput shows the median of each group, place by place, without open
// loops, whose rate was asked for.
func throughput(run *result.Run) Figure {
	f := Figure{Name: "throughput", Title: "Purchases a second", Note: medians}
	f.X = Scale{Label: "purchases/s", Unit: result.PerSecond}
	rate := result.MetricNamed("purchases_per_second")
	for _, g := range measured(run) {
		if g.Rate == 0 {
			p, i := f.panel(g.Place()), median(g, rate, run.Manifest.Config.Trials)
			p.Dots = append(p.Dots, Dot{Label: again(g.Strategy), Value: i.Center, Low: i.Low, High: i.High})
		}
	}
	return f
}

func (f *Figure) panel(title string) *Panel {
	return oneOf(&f.Panels, Panel{Title: title}, func(p Panel) bool { return p.Title == title })
}

// oneOf is the first element for which a function is true, or fresh, which it then appends.
func oneOf[T any](all *[]T, fresh T, is func(T) bool) *T {
	i := slices.IndexFunc(*all, is)
	if i < 0 {
		i = len(*all)
		*all = append(*all, fresh)
	}
	return &(*all)[i]
}

func (p *Panel) add(strategy string, x, y float64) {
	name := again(strategy)
	line := oneOf(&p.Lines, Curve{Label: name}, func(l Curve) bool { return l.Label == name })
	line.X = append(line.X, x)
	line.Y = append(line.Y, y)
}

// swept shows the purchases of each strategy along the first axis of a sweep, a panel
// for each value of the second.
func swept(run *result.Run) Figure {
	f := Figure{Name: "sweep", Title: "Purchases a second", Note: medians}
	f.Y = Scale{Label: "purchases/s", Unit: result.PerSecond}
	axes := run.Manifest.Config.Axes
	f.X = Scale{Label: string(axes[0].Name), Log: axes[0].Values[0] > 0}
	if !axes[0].Name.Whole() {
		f.X.Unit = result.Milliseconds
	}
	for _, p := range sweep.Points(run, nil) {
		title := ""
		if len(axes) > 1 {
			title = fmt.Sprintf("%s=%s", axes[1].Name, strconv.FormatFloat(p.At[1], 'f', -1, 64))
		}
		for _, g := range p.Groups {
			f.panel(title).add(g.Strategy, p.At[0], compare.Rate(g).Center)
		}
	}
	return f
}

// latencies shows percentiles of the waits of each group, over N: one in N
// purchases waited longer.
func latencies(run *result.Run) Figure {
	f := Figure{
		Name: "latency", Title: "How long purchases take",
		Note: "Percentiles of the waits, medians of the rounds: 1 in 2 waits is longer than the first, " +
			"1 in 1,000 than the last.",
		X: Scale{Label: "1 in N waits is longer", Log: true},
		Y: Scale{Label: "wait", Unit: result.Milliseconds, Log: true},
	}
	for _, g := range measured(run) {
		for _, part := range []struct {
			name string
			one  float64
		}{{"p50", 2}, {"p90", 10}, {"p99", 100}, {"p999", 1000}} {
			m := result.MetricNamed("wait_ms_" + part.name)
			if v := compare.Median(g.Values(m)).Center; v > 0 && float64(g.Rows[0].WaitMS.Count) >= part.one {
				f.panel(g.Place()).add(g.Strategy, part.one, v)
			}
		}
	}
	return f
}

func rates(run *result.Run) Figure {
	f := Figure{Name: "rate", Title: "Latency at the rate reached"}
	f.Note = "Medians of the rounds; latency counts from when an order was due."
	f.X = Scale{Label: "purchases/s reached", Unit: result.PerSecond}
	f.Y = Scale{Label: "p99 from when the order was due", Unit: result.Milliseconds, Log: true}
	f.Y.Mark = run.Manifest.Config.SLOMS
	reached := result.MetricNamed("reached_per_second")
	p99 := result.MetricNamed("wait_ms_p99")
	for _, g := range measured(run) {
		if g.Rate > 0 {
			f.panel("").add(g.Strategy, compare.Median(g.Values(reached)).Center, compare.Median(g.Values(p99)).Center)
		}
	}
	return f
}

package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
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
	Unit  runs.Unit
	Log   bool    // without 0, unless Zero
	Zero  bool    // a logarithmic scale has a place for 0, apart from the others
	Mark  float64 // a value to draw a line at; 0: none
	Ticks []Tick  // where they stand, such as where was measured; nil: at round numbers
}

// A Tick is a value that stands at an axis.
type Tick struct {
	At    float64
	Label string // empty: the value as a number
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
func Figures(run *runs.Run) []Figure {
	all := []Figure{BookFigure(run), throughput(run), rates(run), retries(run), latencies(run), course(run), waits(run)}
	if len(run.Manifest.Config.Axes) > 0 {
		purchases, again := swept(run)
		all = []Figure{purchases, rates(run), again}
	}
	return slices.DeleteFunc(all, func(f Figure) bool { return len(f.Panels) == 0 })
}

const medians = "Medians of the rounds, with their 95% intervals where there are enough."

// throughput shows the median of each group, place by place, without open
// loops, whose rate was asked for.
func throughput(run *runs.Run) Figure {
	f := Figure{Name: "throughput", Title: "Purchases a second", Note: medians}
	f.X = Scale{Label: "purchases/s", Unit: runs.PerSecond}
	f.dots(run, runs.MetricByName("purchases_per_second"), func(g runs.Group) bool { return g.Rate == 0 })
	return f
}

// dots adds the median of a metric for each group that is to be shown, a panel
// for each place.
func (f *Figure) dots(run *runs.Run, m runs.Metric, shown func(runs.Group) bool) {
	for _, g := range measured(run) {
		if !shown(g) {
			continue
		}
		i := median(g, m, run.Manifest.Config.Trials)
		p := f.panel(g.Place())
		p.Dots = append(p.Dots, Dot{Label: inWords(g.Subject()), Value: i.Center, Low: i.Low, High: i.High})
	}
}

func (f *Figure) panel(title string) *Panel {
	return oneOf(&f.Panels, Panel{Title: title}, func(p Panel) bool { return p.Title == title })
}

// oneOf is the first element for which a function is true, or fresh, which it then appends.
// What is appended later may leave the pointer with an old copy.
func oneOf[T any](all *[]T, fresh T, is func(T) bool) *T {
	i := slices.IndexFunc(*all, is)
	if i < 0 {
		i = len(*all)
		*all = append(*all, fresh)
	}
	return &(*all)[i]
}

// add adds a point to a strategy's line. A value that is not known, as of a row in which nothing
// was bought, has none.
func (p *Panel) add(strategy string, x, y float64) {
	if math.IsNaN(x) || math.IsNaN(y) {
		return
	}
	name := inWords(strategy)
	line := oneOf(&p.Lines, Curve{Label: name}, func(l Curve) bool { return l.Label == name })
	line.X = append(line.X, x)
	line.Y = append(line.Y, y)
}

// swept are figures of the purchases and of the retries of each strategy along the first
// axis of a sweep, a panel for each value of the second.
func swept(run *runs.Run) (rate, retries Figure) {
	axes := run.Manifest.Config.Axes
	along := Scale{Label: string(axes[0].Name), Log: true, Zero: true}
	if !axes[0].Name.Whole() {
		along.Unit = runs.Milliseconds
	}
	for _, v := range axes[0].Values {
		along.tick(v)
	}

	// Retries span powers of ten and are often none, purchases neither.
	rate = Figure{Name: "sweep", Title: "Purchases a second", Note: "Medians of the rounds.", X: along}
	rate.Y = Scale{Label: "purchases/s", Unit: runs.PerSecond}
	retries = Figure{Name: "retries", Title: retriesTitle, Note: retriesNote + ".", X: along}
	retries.Y = Scale{Label: "retries per purchase", Log: true, Zero: true}
	perPurchase := runs.MetricByName("retries_per_purchase")
	for _, p := range compare.Places(run, nil) { // without comparisons: no verdict is drawn
		title := ""
		if len(axes) > 1 {
			title = fmt.Sprintf("%s=%s", axes[1].Name, strconv.FormatFloat(p.At[1], 'f', -1, 64))
		}
		for _, g := range p.Groups {
			rate.panel(title).add(g.Subject(), p.At[0], compare.Rate(g).Center)
			retries.panel(title).add(g.Subject(), p.At[0], median(g, perPurchase, 0).Center)
		}
	}
	return rate, retries.unlessIdle()
}

const (
	retriesTitle = "Retries per purchase"
	retriesNote  = "Aborted transactions and time-outs of locks, failed orders included, for each purchase that " +
		"was made, on a logarithmic scale with a place of its own for 0. Medians of the rounds"
)

// retries shows the retries per purchase of each group, place by place.
func retries(run *runs.Run) Figure {
	f := Figure{Name: "retries", Title: retriesTitle}
	f.Note = retriesNote + ", with their 95% intervals where there are enough."
	f.X = Scale{Label: "retries per purchase", Log: true, Zero: true}
	f.dots(run, runs.MetricByName("retries_per_purchase"), func(runs.Group) bool { return true })
	return f.unlessIdle()
}

// unlessIdle is the figure, without panels if nothing in it is above 0.
func (f Figure) unlessIdle() Figure {
	var values []float64
	for _, p := range f.Panels {
		for _, dot := range p.Dots {
			values = append(values, dot.Value)
		}
		for _, line := range p.Lines {
			values = append(values, line.Y...)
		}
	}

	if !slices.ContainsFunc(values, func(v float64) bool { return v > 0 }) {
		f.Panels = nil
	}
	return f
}

// course shows the purchases a second in each interval of the measured time.
func course(run *runs.Run) Figure {
	f := Figure{
		Name:  "course",
		Title: "Purchases a second, over the measured time",
		Note:  "Medians of the rounds, each in the middle of an interval. A row whose curve falls was not steady.",
		X:     Scale{Label: "seconds since the measured time began"},
		Y:     Scale{Label: "purchases/s", Unit: runs.PerSecond},
	}

	least := math.Inf(1)
	most := 0.0
	eachInterval(run, func(g runs.Group, number int) {
		rates := intervalRates(g.Rows, number)
		if len(rates) < len(g.Rows) {
			return
		}
		v := compare.Median(rates).Center
		f.panel(g.Place()).add(g.Subject(), middle(g, number), v)
		least = min(least, max(v, 1)) // so that nothing is divided by 0
		most = max(most, v)
	})

	// Rates that differ by more than this get a scale of powers: on an even one the slow would lie
	// on the axis, unseen.
	const far = 20
	if most/least > far {
		f.Y.Log, f.Y.Zero = true, true
	}
	return f
}

// waits shows how long purchases took in each interval of the measured time.
func waits(run *runs.Run) Figure {
	f := Figure{
		Name:  "waits",
		Title: "Latency over the measured time",
		Note: fmt.Sprintf("Medians of the rounds, of the purchases that ended in each interval. "+
			"The p99 of fewer than %d purchases is left out: it would be the longest wait.", leastForP99),
		X: Scale{Label: "seconds since the measured time began"},
		Y: Scale{Label: "wait", Unit: runs.Milliseconds, Log: true},
	}

	for _, percentile := range []struct {
		name  string
		least int64 // purchases
		of    func(result.Row) []float64
	}{
		{name: "p50", least: 1, of: func(r result.Row) []float64 { return r.CourseP50MS }},
		{name: "p99", least: leastForP99, of: func(r result.Row) []float64 { return r.CourseP99MS }},
	} {
		eachInterval(run, func(g runs.Group, number int) {
			var values []float64
			for _, r := range g.Rows {
				all := percentile.of(r) // none, in rows of older versions
				if number < len(all) && number < len(r.Course) && r.Course[number] >= percentile.least {
					values = append(values, all[number])
				}
			}
			if len(values) == len(g.Rows) {
				f.panel(g.Place()+", "+percentile.name).add(g.Subject(), middle(g, number), compare.Median(values).Center)
			}
		})
	}
	return f
}

const leastForP99 = 100 // purchases, of which one takes longer than their p99

// eachInterval calls do with each interval of each group that has any: a sweep stores none.
// They are those of the group's first round: another one may have fewer.
func eachInterval(run *runs.Run, do func(g runs.Group, number int)) {
	for _, g := range measured(run) {
		if g.Rows[0].CourseSeconds <= 0 {
			continue
		}
		for number := range g.Rows[0].Course {
			do(g, number)
		}
	}
}

// middle is when half of an interval of a group was over, in seconds.
func middle(g runs.Group, number int) float64 {
	return (float64(number) + 0.5) * g.Rows[0].CourseSeconds
}

// intervalRates are the purchases a second in one interval of each row that has it. The last
// one of a row may be too short to tell a rate.
func intervalRates(rows []result.Row, number int) (rates []float64) {
	length := rows[0].CourseSeconds
	for _, r := range rows {
		measured := min(length, r.Seconds-float64(number)*length)
		if r.CourseSeconds == length && number < len(r.Course) && measured >= length/2 {
			rates = append(rates, float64(r.Course[number])/measured)
		}
	}
	return rates
}

// rates shows, of each group of an open loop, its p99 over the rate that it reached, all in one
// panel, with a line at the time after which an order is late. A closed loop adds no panel.
func rates(run *runs.Run) Figure {
	f := Figure{Name: "rate", Title: "Latency at the rate reached"}
	f.Note = "Medians of the rounds; latency counts from when an order was due."
	f.X = Scale{Label: "purchases/s reached (ticks: asked for)", Unit: runs.PerSecond}
	f.Y = Scale{Label: "p99 from when the order was due", Unit: runs.Milliseconds, Log: true}
	f.Y.Mark = run.Manifest.Config.SLOMS

	reached := runs.MetricByName("reached_per_second")
	p99 := runs.MetricByName("wait_ms_p99")
	for _, g := range measured(run) {
		if g.Rate > 0 {
			f.X.tick(g.Rate)
			f.panel("").add(g.Subject(), median(g, reached, 0).Center, median(g, p99, 0).Center)
		}
	}
	return f
}

// tick adds a tick at a value, once.
func (s *Scale) tick(v float64) {
	if !slices.Contains(s.Ticks, Tick{At: v}) {
		s.Ticks = append(s.Ticks, Tick{At: v})
	}
}

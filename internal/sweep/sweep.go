// Package sweep says which strategy is best where: it makes the points of a run that
// varies one or two axes, such as clients and hold, and reads from the stored run which
// strategy is best at each. Nothing in it measures.
package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/suggest"
)

// A Point is what is known about one place of a sweep.
type Point struct {
	Place       string
	At          []float64            // its value on each axis
	Groups      []runs.Group         // of each strategy that has a row
	Comparisons []compare.Comparison // of each two strategies
	// Best are the strategies that no other is known to beat here. Loss compares
	// the slowest, as A, with the fastest; nil: there are no two. Both are empty
	// while rounds are missing.
	Best []string
	Loss *compare.Comparison
}

// Points are the places of a sweep, the last axis varying fastest. Who is best follows
// from what [compare.Of] says of the run. It returns nil if the run is no sweep.
func Points(run *runs.Run, compared []compare.Comparison) []Point {
	c := run.Manifest.Config
	if len(c.Axes) == 0 {
		return nil
	}
	var all []Point
	at := map[string]int{}
	places := c.Places()
	for i, place := range places {
		all = append(all, Point{Place: place, At: values(c.Axes, i)})
		at[place] = i
	}
	for _, g := range run.Groups() {
		if i, planned := at[g.Place()]; planned {
			all[i].Groups = append(all[i].Groups, g)
		}
	}
	for _, pair := range compared {
		i := at[pair.Place]
		all[i].Comparisons = append(all[i].Comparisons, pair)
	}
	if len(run.CompleteRounds()) == c.Trials { // before that nothing is decided
		for i := range all {
			all[i].judge()
		}
	}
	return all
}

func values(axes []runs.Axis, i int) []float64 {
	at := make([]float64, len(axes))
	for a, axis := range slices.Backward(axes) {
		at[a] = axis.Values[i%len(axis.Values)]
		i /= len(axis.Values)
	}
	return at
}

func (p *Point) judge() {
	for _, g := range p.Groups {
		beaten := slices.ContainsFunc(p.Comparisons, func(c compare.Comparison) bool {
			return c.A == g.Strategy && c.Verdict == compare.Slower ||
				c.B == g.Strategy && c.Verdict == compare.Faster
		})
		if !beaten && g.Problem() == "" {
			p.Best = append(p.Best, g.Strategy)
		}
	}
	if len(p.Groups) < 2 {
		return
	}

	byRate := func(a, b runs.Group) int {
		return cmp.Compare(compare.Rate(a).Center, compare.Rate(b).Center)
	}
	slowest := slices.MinFunc(p.Groups, byRate).Strategy
	fastest := slices.MaxFunc(p.Groups, byRate).Strategy
	for _, c := range p.Comparisons {
		switch {
		case c.A == slowest && c.B == fastest:
			p.Loss = new(c)
		case c.A == fastest && c.B == slowest:
			p.Loss = new(c.Reversed())
		}
	}
}

const MostPoints = 5000 // MostPoints is how many places a sweep has at most.

// ParseAxes reads axes such as "clients=1,2,4..64" and "hold=0,1ms,2ms". Their
// values ascend. A,B..C continues A and B up to C, by their ratio if that arrives at
// C, and else by their difference.
func ParseAxes(texts []string) ([]runs.Axis, error) {
	if n := len(texts); n < 1 || n > 2 {
		return nil, fmt.Errorf("%d axes: want one or two", n)
	}
	var all []runs.Axis
	places := 1
	for _, text := range texts {
		axis, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if slices.ContainsFunc(all, func(a runs.Axis) bool { return a.Name == axis.Name }) {
			return nil, fmt.Errorf("%q: the axis is there twice", text)
		}
		all = append(all, axis)
		places *= len(axis.Values)
		if places > MostPoints {
			return nil, fmt.Errorf("%d places: want at most %d", places, MostPoints)
		}
	}
	return all, nil
}

func parse(text string) (runs.Axis, error) {
	name, list, found := strings.Cut(text, "=")
	axis := runs.Axis{Name: runs.AxisName(name)}
	switch {
	case !found || list == "":
		return axis, errors.New("want NAME=VALUES, such as clients=1,2,4..64 or hold=0,1ms,2ms..8ms")
	case !slices.Contains(runs.AxisNames(), axis.Name):
		known := suggest.Names(runs.AxisNames(), func(n runs.AxisName) string { return string(n) })
		return axis, errors.New(suggest.Unknown("axis", name, known))
	}
	for element := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(element, "..")
		v, err := value(axis.Name, from)
		if err != nil {
			return axis, err
		}
		axis.Values = append(axis.Values, v)
		if ranged {
			end, err := value(axis.Name, to)
			if err == nil {
				axis.Values, err = goOn(axis.Values, end, axis.Name.Whole())
			}
			if err != nil {
				return axis, fmt.Errorf("%s: %w", element, err)
			}
		}
	}
	for i := range axis.Values[1:] {
		if axis.Values[i+1] <= axis.Values[i] {
			return axis, errors.New("its values must ascend")
		}
	}
	return axis, nil
}

// goOn continues the last two values up to the end, in whole numbers, or exact
// to a nanosecond.
func goOn(values []float64, end float64, whole bool) ([]float64, error) {
	n := len(values)
	if n < 2 {
		return nil, errors.New("it does not say by which steps: put two values before the dots, as in 1,2..64")
	}
	a, b := values[n-2], values[n-1]
	steps := []func(float64) float64{func(v float64) float64 { return v + b - a }}
	if a > 0 {
		steps = slices.Insert(steps, 0, func(v float64) float64 { return v * b / a })
	}
	// the third from the end shows that it is the difference
	if n > 2 && math.Abs(b-2*a+values[n-3]) < 1e-6 {
		steps = steps[len(steps)-1:]
	}
	for _, next := range steps {
		all := slices.Clone(values)
		fits := b > a && b < end
		for v := b; fits && v < end && len(all) <= MostPoints; {
			v = math.Round(next(v)*1e6) / 1e6
			fits = !whole || v == math.Trunc(v)
			all = append(all, v)
		}
		if fits && all[len(all)-1] == end {
			return all, nil
		}
	}
	return nil, fmt.Errorf("going on from %v and %v does not arrive at its end", a, b)
}

// value reads a value: a whole number, or a time, which results hold in milliseconds.
func value(name runs.AxisName, text string) (float64, error) {
	if name.Whole() {
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%q: it takes whole numbers from 1 to 1048575", text)
		}
		return float64(n), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: it takes times, such as 0.2ms", text)
	}
	return float64(d) / 1e6, nil
}

// Expand makes the points of a sweep: the last axis varies fastest, and inside
// each place the strategy.
func Expand(base result.Point, strategies []string, axes []runs.Axis) []result.Point {
	places := []result.Point{base}
	for _, axis := range axes {
		var longer []result.Point
		for _, p := range places {
			for _, v := range axis.Values {
				longer = append(longer, axis.Name.At(p, v))
			}
		}
		places = longer
	}
	var all []result.Point
	for _, p := range places {
		for _, p.Strategy = range strategies {
			all = append(all, p)
		}
	}
	return all
}

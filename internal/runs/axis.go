package runs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/wording"
)

// An Axis is what a sweep varies.
type Axis struct {
	Name   AxisName  `json:"name"`
	Values []float64 `json:"values"` // ascending; times are in milliseconds
}

// AxisName names an axis.
type AxisName string

// The axes of a sweep.
const (
	// How many sellers, and as many buyers; where items circulate, buyers alone.
	AxisClients AxisName = "clients"
	AxisHot     AxisName = "hot"  // as Load.Hot
	AxisHold    AxisName = "hold" // as Load.HoldMS
	AxisRTT     AxisName = "rtt"  // as Load.RTTMS
	// AxisMarkets is as Load.Markets, where 1 is the only one.
	AxisMarkets AxisName = "markets"
)

// AxisNames are all of them.
func AxisNames() []AxisName { return []AxisName{AxisClients, AxisHot, AxisHold, AxisRTT, AxisMarkets} }

// Whole reports whether the axis counts something.
func (a AxisName) Whole() bool { return a == AxisClients || a == AxisHot || a == AxisMarkets }

// At returns the point moved to a value of the axis. If items circulate there are no
// sellers, whichever of clients and hot is applied first. Each value makes another
// result.Point.Place: by their places package compare finds the points of a sweep.
func (a AxisName) At(p result.Point, value float64) result.Point {
	switch a {
	case AxisClients:
		p.Mix = result.Mix{Sellers: int(value), Buyers: int(value)}
	case AxisHot:
		p.Hot = int(value)
	case AxisHold:
		p.HoldMS = value
	case AxisRTT:
		p.RTTMS = value
	case AxisMarkets:
		p.Markets = int(value)
		if p.Markets == 1 { // one load has one form: points are compared with ==
			p.Markets = 0
		}
	}

	if p.Hot > 0 {
		p.Mix.Sellers = 0
	}
	return p
}

func (a Axis) check() error {
	if !slices.Contains(AxisNames(), a.Name) {
		return fmt.Errorf("unknown axis %q", string(a.Name))
	}
	once := slices.Compact(slices.Clone(a.Values))
	if len(once) == 0 || len(once) != len(a.Values) || !slices.IsSorted(once) {
		return fmt.Errorf("the axis %s has the values %v: want some, in ascending order, each once",
			a.Name, a.Values)
	}
	return nil
}

const MostPoints = 5000 // MostPoints is how many places a sweep has at most.

// ParseAxes reads axes such as "clients=1,2,4..64" and "hold=0,1ms,2ms". Their
// values ascend. A,B..C continues A and B up to C, by their ratio if that arrives at
// C, and else by their difference. There are two axes at most: Run.check refuses more, and the
// figures of a sweep show no third.
func ParseAxes(texts []string) ([]Axis, error) {
	if n := len(texts); n < 1 || n > 2 {
		return nil, fmt.Errorf("%d axes: want one or two", n)
	}

	var all []Axis
	places := 1
	for _, text := range texts {
		axis, err := parseAxis(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if slices.ContainsFunc(all, func(a Axis) bool { return a.Name == axis.Name }) {
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

// parseAxis reads one axis. An element such as "4..64" goes on from the value before it, in the
// step or by the factor of the last two.
func parseAxis(text string) (Axis, error) {
	name, list, found := strings.Cut(text, "=")
	axis := Axis{Name: AxisName(name)}
	switch {
	case !found || list == "":
		return axis, errors.New("want NAME=VALUES, such as clients=1,2,4..64 or hold=0,1ms,2ms..8ms")
	case !slices.Contains(AxisNames(), axis.Name):
		known := wording.Names(AxisNames(), func(n AxisName) string { return string(n) })
		return axis, errors.New(wording.Unknown("axis", name, known))
	}

	for element := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(element, "..")
		v, err := axisValue(axis.Name, from)
		if err != nil {
			return axis, err
		}
		axis.Values = append(axis.Values, v)

		if ranged {
			end, err := axisValue(axis.Name, to)
			if err == nil {
				axis.Values, err = continueTo(axis.Values, end, axis.Name.Whole())
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

// continueTo continues the last two values up to the end, in whole numbers, or exact
// to a nanosecond: times are in milliseconds. It tries their ratio, then their difference, and
// takes the first that arrives at the end. It gives up beyond MostPoints values.
func continueTo(values []float64, end float64, whole bool) ([]float64, error) {
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

// axisValue reads a value: a whole number, or a time, which results hold in milliseconds.
func axisValue(name AxisName, text string) (float64, error) {
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
// each place the strategy. By this order package compare finds the values of a place.
func Expand(base result.Point, strategies []string, axes []Axis) []result.Point {
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
		for _, p.Strategy = range strategies { // sets it in p
			all = append(all, p)
		}
	}
	return all
}

package result

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A Sweep is what a run says about its points, judged when it ended: which strategy is best at each, and where one
// passes another. It is drawn as it is; a report decides nothing.
type Sweep struct {
	// Findings are what came out, a sentence each, what matters most first.
	Findings  []string     `json:"sentences"`
	Points    []SweepPoint `json:"points"` // in the order of Config.Points
	Crossings []Crossing   `json:"crossings,omitempty"`
}

// A SweepPoint is what is known about one point of a sweep.
type SweepPoint struct {
	At          []float64    `json:"at"`                    // its value on each of Config.Axes
	Place       string       `json:"place"`                 // as Point.String
	Strategies  []Measured   `json:"strategies"`            // in the order of Config.Strategies; those without a row are missing
	Comparisons []Comparison `json:"comparisons,omitempty"` // of each two strategies; Mix is Place
	// Best are the strategies that none is known to beat here: one, if the best is known. It is empty while rounds are
	// missing, as Loss is, which is that of the worst choice; nil otherwise: fewer than two strategies bought something.
	Best []string `json:"best,omitempty"`
	Loss *Loss    `json:"loss,omitempty"`
}

// Measured is a strategy at a point: the medians of its rounds, with their 95% intervals.
type Measured struct {
	Strategy  string   `json:"strategy"`
	Rounds    int      `json:"rounds"` // complete ones that stand behind it
	PerSecond Estimate `json:"purchases_per_second"`
	P99MS     Estimate `json:"p99_ms"` // of the waits
	// Commands are those to the market's server for each purchase, and ServerUS the server's CPU time. They are nil where
	// they could not be found out.
	Commands *Estimate `json:"commands_per_purchase,omitempty"`
	ServerUS *Estimate `json:"server_us,omitempty"`
	// Problem says why the numbers must not be judged, as in "failed its audit in round 2"; empty: they may be.
	Problem string `json:"problem,omitempty"`
}

// An Estimate is the median of the rounds, and where its 95% interval ends. Low and High are nil where rounds are too few
// for one, or some are missing.
type Estimate struct {
	Median float64  `json:"median"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
}

// Loss is what the choice of the slowest strategy costs at a point: its purchases/s over those of the fastest, by their
// medians, divided inside each round. The interval is that of their Comparison.
type Loss struct {
	Worst string   `json:"worst"`
	Best  string   `json:"best"`
	Ratio float64  `json:"ratio"` // at most 1, but for chance
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
	Sure  bool     `json:"sure"` // the worst is known to be slower
}

// A Line is the points of a sweep along one of its axes, at one value of the other if there is one.
type Line struct {
	Axis       AxisName `json:"axis"`
	Other      AxisName `json:"other,omitempty"` // empty: the sweep has one axis
	OtherValue float64  `json:"other_value,omitempty"`
}

// A Crossing is where strategy A, known to be slower than B before it, is known to be faster after it.
type Crossing struct {
	Line
	A      string  `json:"a"`
	B      string  `json:"b"`
	Before float64 `json:"before"` // the last value of the axis at which A is known to be slower
	After  float64 `json:"after"`  // the first at which A is known to be faster
	Until  float64 `json:"until"`  // and the last such value without a gap
	// Between are the measured values between Before and After: which of the two is faster there is not decided, or it makes
	// no difference.
	Between []float64 `json:"between,omitempty"`
}

// A Point of a sweep is the load and the market that its rows have in common.
type Point struct {
	At  []float64 // its value on each of Config.Axes
	Mix Mix
	Workload
}

// String names the point as its rows do: "5x5", or "0x5 hot=1 hold=2ms" where the market is not the book's.
func (p Point) String() string { return place(p.Mix.String(), p.Workload) }

// place is what the name of a row says besides its strategy and its rate.
func place(mix string, w Workload) string {
	if text := w.String(); text != "" {
		return mix + " " + text
	}
	return mix
}

// MaxSweepPoints is how many points a sweep has at most.
const MaxSweepPoints = 5000

// Points are the points of a sweep, the last of its axes varying fastest. Nil: the run is no sweep.
func (c Config) Points() []Point {
	if len(c.Axes) == 0 {
		return nil
	}
	type setting struct {
		at      []float64
		clients int
		Workload
	}
	all := []setting{{clients: c.Clients, Workload: c.Workload}}
	for _, axis := range c.Axes {
		var longer []setting
		for _, s := range all {
			for _, v := range axis.Values {
				next := s
				next.at = append(slices.Clone(s.at), v)
				switch axis.Name {
				case Clients:
					next.clients = int(v)
				case Hot:
					next.Hot = int(v)
				case Hold:
					next.HoldMS = v
				case RTT:
					next.RTTMS = v
				case Markets:
					if next.Markets = int(v); v == 1 {
						next.Markets = 0
					}
				}
				longer = append(longer, next)
			}
		}
		all = longer
	}
	points := make([]Point, 0, len(all))
	for _, s := range all {
		mix := Mix{Sellers: s.clients, Buyers: s.clients}
		if s.Hot > 0 {
			mix.Sellers = 0
		}
		points = append(points, Point{At: s.at, Mix: mix, Workload: s.Workload})
	}
	return points
}

// Places are the loads under which a run compares strategies: its mixes, with its workload where that is not the book's,
// or the points of a sweep. Row.Place names that of a row in the same way.
func (c Config) Places() []string {
	var all []string
	for _, p := range c.Points() {
		all = append(all, p.String())
	}
	if len(c.Axes) == 0 {
		for _, mix := range c.Mixes {
			all = append(all, place(mix, c.Workload))
		}
	}
	return all
}

// Say is a value of the axis in words, as in "8 clients", "1 hot item", "a hold of 10 ms" and "a delay of 0.2 ms".
func (a AxisName) Say(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	several := ""
	if v != 1 {
		several = "s"
	}
	switch a {
	case Clients:
		return text + " client" + several
	case Hot:
		return text + " hot item" + several
	case Hold:
		return "a hold of " + text + " ms"
	case RTT:
		return "a delay of " + text + " ms"
	case Markets:
		return text + " market" + several
	}
	return text
}

// checkAxes refuses axes that no sweep has. Several thousand points bound what a file can make a reader compute.
func (c Config) checkAxes() error {
	points := 1
	for i, axis := range c.Axes {
		if err := axis.check(); err != nil {
			return err
		}
		for j, v := range axis.Values {
			whole := axis.Name == Clients || axis.Name == Hot || axis.Name == Markets
			if v < 0 || v > 1e9 || whole && (v != math.Trunc(v) || v == 0) || j > 0 && v <= axis.Values[j-1] {
				return fmt.Errorf("the axis %s has the values %v: they ascend from 0, and numbers of clients, items and markets are whole",
					axis.Name, axis.Values)
			}
		}
		if slices.ContainsFunc(c.Axes[:i], func(other Axis) bool { return other.Name == axis.Name }) {
			return fmt.Errorf("the axis %s is there twice", axis.Name)
		}
		if points *= len(axis.Values); points > MaxSweepPoints {
			return fmt.Errorf("the axes have more than %d points", MaxSweepPoints)
		}
	}
	if len(c.Axes) > 2 {
		return errors.New("it has more than two axes")
	}
	return nil
}

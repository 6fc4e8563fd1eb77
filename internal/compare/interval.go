package compare

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/marketsim/marketsim/internal/runs"
)

// Rate is the median of a group's purchases/s.
func Rate(g runs.Group) Interval {
	return Median(g.Values(runs.MetricByName("purchases_per_second")))
}

const Confidence = 0.95 // Confidence is that of the interval of one number.

// An Interval is the median of some values, and where the median of all values that
// could have been measured lies.
type Interval struct {
	Center float64 // the median; NaN of no values
	// -Inf and +Inf where there are too few values for an interval: then
	// nothing is excluded
	Low, High float64
	N         int // how many values
}

// Known reports whether there were enough values for an interval.
func (i Interval) Known() bool { return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) }

// Median is the median of finite values, with its interval at Confidence if
// there are 6 values or more.
func Median(values []float64) Interval { return median(values, Confidence) }

// median takes its interval from order statistics, so it assumes only that values are
// independent. That of [benchmath] can reach one rank further down than up, for example
// with 8 values; the interval here spans its mirror image, too.
func median(values []float64, confidence float64) Interval {
	mirrored := make([]float64, len(values))
	for i, v := range values {
		mirrored[i] = -v
	}

	up := summary(slices.Clone(values), confidence)
	down := summary(mirrored, confidence)
	i := Interval{
		Center: up.Center,
		Low:    min(up.Lo, -down.Hi),
		High:   max(up.Hi, -down.Lo),
		N:      len(values),
	}
	if !i.Known() {
		i.Low, i.High = math.Inf(-1), math.Inf(1)
	}
	return i
}

// summary sorts values, and has benchmath summarize them.
func summary(values []float64, confidence float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
}

package compare

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is that of the interval of one number.
const Confidence = 0.95

// An Interval is the median of some values, and where the median of all values that could have been measured lies.
type Interval struct {
	Center    float64 // the median; NaN of no values
	Low, High float64 // -Inf and +Inf where there are too few values for an interval: then nothing is excluded
	N         int     // how many values
}

// Known reports whether there were enough values for an interval.
func (i Interval) Known() bool { return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) }

// Median is the median of finite values, which stay as they are, with its interval at Confidence: 6 values or more.
func Median(values []float64) Interval { return median(values, Confidence) }

// median takes its interval from order statistics, so it assumes nothing about how values are distributed, only that
// they are independent. That of [benchmath] can reach one rank further down than up, for example with 8 values. Its
// mirror image is as good, and the interval here spans both: so it does not matter what was divided by what.
func median(values []float64, confidence float64) Interval {
	mirrored := make([]float64, len(values))
	for i, v := range values {
		mirrored[i] = -v
	}
	up, down := summary(slices.Clone(values), confidence), summary(mirrored, confidence)
	i := Interval{Center: up.Center, Low: min(up.Lo, -down.Hi), High: max(up.Hi, -down.Lo), N: len(values)}
	if !i.Known() {
		i.Low, i.High = math.Inf(-1), math.Inf(1)
	}
	return i
}

// summary sorts values.
func summary(values []float64, confidence float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
}

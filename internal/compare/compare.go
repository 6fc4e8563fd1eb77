// Package compare says what is known about the difference between rows, and no more:
// medians with intervals, and one of the words faster, slower, no difference and not
// decided. It reads stored results, and nothing in it measures.
//
// What slows the machine down hits both rows of a pair alike. [Of] therefore divides
// inside a round, and takes the median of these ratios. The interval of that median
// assumes only that rounds are independent of each other. Of m comparisons each has a
// confidence of 1-0.05/m, so that with 95% all of them hold at once (Bonferroni).
//
// A round that other processes disturbed, see [result.Row.Disturbed], is left out, whatever
// its ratio: that is decided by what they took, and not by what was found.
//
// If a strategy is found faster or slower than itself, nothing in the run is decided:
// the cause may have made other differences too. The number of rounds is fixed before the
// first: measuring until a difference appears finds one.
//
// On testdata/rounds.csv, 60 rounds of a strategy against itself where the ratio varies
// by 13%, at most 5% of 1,000 random splits are called faster or slower. A slowdown of
// 10% is found in 47% by 9 rounds, 80% by 18 and 86% by 21.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// A Comparison is what is known about the purchases/s of A over those of B, in one place.
type Comparison struct {
	A, B  string
	Place string // as result.Point.Place

	Rounds                 int     // that were compared
	PerSecondA, PerSecondB float64 // medians; NaN: there are none
	// Of A's to B's, and its interval; NaN: there is none, or one strategy bought nothing.
	Ratio, Low, High float64
	Confidence       float64 // of the interval, 0 to 1
	Verdict          Conclusion
	// Why it is not decided ("4 of 9 rounds"); empty: the interval is too wide.
	Reason string
	// What other processes took of the machine, 0 to 1, in rounds that are left
	// out for that.
	Disturbed []float64
}

// Conclusion is what a comparison says.
type Conclusion string

// The verdicts.
const (
	Faster Conclusion = "faster" // A: the interval lies above 1
	Slower Conclusion = "slower" // A: the interval lies below 1
	// The interval lies between 1/(1+margin) and 1+margin, even if above or below 1.
	NoDifference Conclusion = "no difference"
	Undecided    Conclusion = "not decided"
)

// Reversed compares B with A.
func (c Comparison) Reversed() Comparison {
	c.A, c.B, c.PerSecondA, c.PerSecondB = c.B, c.A, c.PerSecondB, c.PerSecondA
	c.Ratio, c.Low, c.High = 1/c.Ratio, 1/c.High, 1/c.Low
	switch c.Verdict {
	case Faster:
		c.Verdict = Slower
	case Slower:
		c.Verdict = Faster
	}
	return c
}

// confidence is that of each pair's interval: all of them hold at once with [Confidence].
func confidence(pairs int) float64 { return 1 - (1-Confidence)/float64(max(1, pairs)) }

// Fewest is how many rounds it takes to give an interval for this number of pairs.
func Fewest(pairs int) int {
	n := 2
	for !median(make([]float64, n), confidence(pairs)).Known() {
		n++
	}
	return n
}

// Pairs are the strategies that a plan compares in each place: all others with the
// first, or in a sweep every pair.
func Pairs(plan runs.Config) (all [][2]string) {
	strategies := plan.Strategies()
	for i, a := range strategies {
		switch {
		case len(plan.Axes) > 0:
			for _, b := range strategies[i+1:] {
				all = append(all, [2]string{a, b})
			}
		case i > 0:
			all = append(all, [2]string{a, strategies[0]})
		}
	}
	return all
}

// Of compares the pairs of a run in each place, in the order of the plan; nil: the
// run was not made to compare.
func Of(run *runs.Run) []Comparison {
	c := run.Manifest.Config
	if c.Margin == nil {
		return nil
	}

	type measured struct {
		strategy, place string
		round           int
	}
	rows := map[measured]*result.Row{}
	for i := range run.Rows {
		r := &run.Rows[i]
		rows[measured{r.Strategy, r.Place(), r.Trial}] = r
	}

	pairs := Pairs(c)
	places := c.Places()
	each := confidence(len(pairs) * len(places))
	var all []Comparison
	for _, place := range places {
		for _, ab := range pairs {
			p := pair{Comparison: Comparison{A: ab[0], B: ab[1], Place: place, Confidence: each}}
			for round := 1; round <= c.Trials; round++ {
				p.add(rows[measured{p.A, place, round}], rows[measured{p.B, place, round}])
			}
			all = append(all, p.judge(c.Trials, *c.Margin))
		}
	}
	doubt(all)
	return all
}

// doubt makes all comparisons undecided if a strategy differs from itself.
func doubt(all []Comparison) {
	for _, c := range all {
		spec := result.Point{Strategy: c.A}.Spec()
		same := spec == result.Point{Strategy: c.B}.Spec()
		if same && (c.Verdict == Faster || c.Verdict == Slower) {
			reason := fmt.Sprintf("%s was %s than itself at %s", spec, c.Verdict, c.Place)
			for i := range all {
				all[i].Verdict = Undecided
				all[i].Reason = reason
			}
			return
		}
	}
}

type pair struct {
	Comparison
	ofA, ofB []float64 // purchases/s
	logs     []float64 // of their ratios: swapping A and B only changes the sign
}

// Stands for the rate of a row without a purchase, which is slower than any other.
const leastRate = 1e-6

// add adds the rows of a round, of which one that was not measured is nil.
func (p *pair) add(a, b *result.Row) {
	if a == nil || b == nil || a.Status != stored.Complete || b.Status != stored.Complete {
		return
	}
	for _, r := range []*result.Row{a, b} {
		if problem := r.Problem(); problem != "" && p.Reason == "" {
			p.Reason = fmt.Sprintf("%s %s in round %d", r.Strategy, problem, r.Trial)
		}
	}
	if took := max(a.Disturbed(), b.Disturbed()); took > 0 {
		p.Disturbed = append(p.Disturbed, took)
		return
	}

	p.ofA = append(p.ofA, a.PerSecond())
	p.ofB = append(p.ofB, b.PerSecond())
	logRate := func(r *result.Row) float64 { return math.Log(max(r.PerSecond(), leastRate)) }
	p.logs = append(p.logs, logRate(a)-logRate(b))
}

func (p *pair) judge(planned int, margin float64) Comparison {
	c := p.Comparison
	nan := math.NaN()
	c.PerSecondA, c.PerSecondB = nan, nan
	c.Ratio, c.Low, c.High = nan, nan, nan
	c.Verdict = Undecided
	if c.Reason != "" {
		return c
	}

	i := median(p.logs, c.Confidence)
	c.Rounds = i.N
	if i.N > 0 {
		c.PerSecondA = Median(p.ofA).Center
		c.PerSecondB = Median(p.ofB).Center
		c.Ratio = math.Exp(i.Center)
	}
	if i.Known() {
		c.Low, c.High = math.Exp(i.Low), math.Exp(i.High)
	}

	disturbed := len(c.Disturbed)
	switch {
	case disturbed > 0 && !i.Known():
		c.Reason = fmt.Sprintf("%s in %d of %d rounds", Disturbance(c.Disturbed), disturbed, planned)
	case i.N+disturbed < planned:
		c.Reason = fmt.Sprintf("%d of %d rounds", i.N, planned)
	case !i.Known():
		c.Reason = fmt.Sprintf("%d rounds give no interval at %.4g%%", i.N, 100*c.Confidence)
	default:
		c.Verdict = verdictOf(c.Low, c.High, margin)
	}

	if c.PerSecondA == 0 || c.PerSecondB == 0 {
		c.Ratio, c.Low, c.High = nan, nan, nan
	}
	return c
}

// verdictOf is what the interval of a ratio means. Ratios between 1/(1+margin) and
// 1+margin are no difference.
func verdictOf(low, high, margin float64) Conclusion {
	switch {
	case low >= 1/(1+margin) && high <= 1+margin:
		return NoDifference
	case low > 1:
		return Faster
	case high < 1:
		return Slower
	}
	return Undecided
}

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

// Disturbance says in words what other processes took, from shares that are not empty.
func Disturbance(shares []float64) string {
	took := fmt.Sprintf("%.0f%%", 100*slices.Min(shares))
	if most := fmt.Sprintf("%.0f%%", 100*slices.Max(shares)); most != took {
		took = strings.TrimSuffix(took, "%") + " to " + most
	}
	return "other processes took " + took + " of this machine's time"
}

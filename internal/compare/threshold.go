package compare

import (
	"fmt"
	"math"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// A Check is what is known about a threshold of one strategy in one place. The intervals of
// all checks of a run hold at once with [Confidence].
type Check struct {
	runs.Threshold
	Strategy, Place string // as result.Point.Subject, and Place

	Rounds int // that were judged
	// The median of the metric, or of its ratio to the first strategy's, and its interval;
	// NaN: there is none.
	Measured, Low, High float64
	Confidence          float64 // of the interval, 0 to 1
	Standing            Standing
	Reason              string // why it is not decided; empty: the limit lies in the interval
}

// Standing is whether a threshold is met.
type Standing string

// The standings.
const (
	Met        Standing = "met"         // the whole interval is
	Broken     Standing = "broken"      // nothing of the interval is
	NotDecided Standing = "not decided" // the limit lies in it, or there is none
)

// Checks is how many a plan takes.
func Checks(plan runs.Config) int { return len(planned(plan)) }

// planned are the checks of a plan: each threshold of each strategy in each place. A
// strategy that is there again, as a control, is not held to it, and the first is not
// compared with itself. Each check more widens the intervals of all.
func planned(plan runs.Config) (all []Check) {
	strategies := plan.Subjects()
	for _, t := range plan.Thresholds {
		for _, place := range plan.Places() {
			for i, s := range strategies {
				isAgain := result.Point{Strategy: s}.Spec() != s
				if isAgain || t.OfFirst && i == 0 {
					continue
				}
				all = append(all, Check{Threshold: t, Strategy: s, Place: place})
			}
		}
	}
	return all
}

// CheckThresholds judges the thresholds of a run, in the order of its plan.
func CheckThresholds(run *runs.Run) []Check {
	plan := run.Manifest.Config
	rows := roundsOf(run)
	all := planned(plan)

	for i := range all {
		c := &all[i]
		c.Confidence = confidence(len(all))
		if c.OfFirst {
			rows.checkRatio(c, plan)
		} else {
			rows.checkValue(c, plan.Trials)
		}
		c.decide()
	}

	return all
}

// checkValue fills in the median of the metric. Rounds that other processes disturbed are
// left out, as in a comparison. So are the problems of these rounds, which there count.
func (all rounds) checkValue(c *Check, trials int) {
	metric := c.Judged()
	var values, disturbed []float64
	for round := 1; round <= trials; round++ {
		r := all[rowKey{c.Strategy, c.Place, round}]
		if r == nil || r.Status != stored.Complete {
			continue
		}
		if took := r.Disturbed(); took > 0 {
			disturbed = append(disturbed, took)
			continue
		}

		v := metric.Of(r)
		values = append(values, v)
		switch problem := r.Problem(); {
		case problem != "":
			c.Reason = fmt.Sprintf("%s %s in round %d", r.Subject(), problem, r.Trial)
		case math.IsNaN(v) && c.Reason == "":
			c.Reason = fmt.Sprintf("%s of %s is not known in round %d", metric.Short, r.Subject(), r.Trial)
		}
	}

	// With a reason nothing is claimed: the values that there are may be those of a wrong market.
	c.Measured, c.Low, c.High = math.NaN(), math.NaN(), math.NaN()
	c.Rounds = len(values)
	if c.Reason != "" {
		return
	}
	i := median(values, c.Confidence)
	if i.N > 0 {
		c.Measured = i.Center
	}
	if i.Known() {
		c.Low, c.High = i.Low, i.High
	}
	c.Reason = tooFew(i, disturbed, trials, c.Confidence)
}

// checkRatio fills in the ratio to the first strategy, as a comparison has it. If the first
// differs from itself nothing is known of ratios.
func (all rounds) checkRatio(c *Check, plan runs.Config) {
	strategies := plan.Subjects()

	// The margin counts for the controls below: of the ratio no verdict is used.
	margin := 0.0
	if plan.Margin != nil {
		margin = *plan.Margin
	}
	of := func(a, place string) Comparison {
		pair := Comparison{A: a, B: strategies[0], Place: place, Metric: c.Judged(), Confidence: c.Confidence}
		return all.compare(pair, plan.Trials, margin)
	}

	ratio := of(c.Strategy, c.Place)
	c.Rounds = ratio.Rounds
	c.Measured, c.Low, c.High = ratio.Ratio, ratio.Low, ratio.High
	c.Reason = ratio.Reason
	if c.Reason == "" && math.IsNaN(ratio.Low) {
		c.Reason = "no ratio: of one of the two it is 0"
	}
	if plan.Margin == nil {
		return
	}

	// The first strategy is in the plan once more, under another name: the A/A control. One
	// place in which it differs from itself is enough.
	var controls []Comparison
	for _, s := range strategies[1:] {
		if (result.Point{Strategy: s}).Spec() != strategies[0] {
			continue
		}
		for _, place := range plan.Places() {
			controls = append(controls, of(s, place))
		}
	}
	if reason := unlikeItself(controls); reason != "" {
		c.Reason = reason
	}
}

// decide compares the interval with the limit.
func (c *Check) decide() {
	limit := c.Limit()
	above, below := c.Low > limit, c.High < limit // NaN is neither
	c.Standing = NotDecided
	switch {
	case c.Reason != "":
	case c.AtLeast && c.Low >= limit, !c.AtLeast && c.High <= limit:
		c.Standing = Met
	case c.AtLeast && below, !c.AtLeast && above:
		c.Standing = Broken
	}
}

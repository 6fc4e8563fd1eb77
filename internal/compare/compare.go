// Package compare says what is known about the difference between rows, and no more:
// medians with intervals, and one of the words faster, slower, no difference and not
// decided. Of another number than purchases/s it says lower or higher. It reads stored
// results, and nothing in it measures.
//
// What slows the machine down hits both rows of a pair alike. [Of] therefore divides
// inside a round, and takes the median of these ratios. The interval of that median
// assumes only that rounds are independent of each other. Of m comparisons, one for each
// pair, place and metric, each has a confidence of 1-0.05/m, so that with 95% all of them
// hold at once (Bonferroni): that holds, too, of metrics that go together, as p50 and p99.
//
// A round that other processes disturbed, see [result.Row.Disturbed], is left out, whatever
// its ratio: that is decided by what they took, and not by what was found.
//
// If a strategy is found to differ from itself by a metric, no comparison by this metric
// is decided: the cause may have made other differences too. The number of rounds is fixed
// before the first: measuring until a difference appears finds one.
//
// On testdata/rounds.csv, 60 rounds of a strategy against itself where the ratio varies
// by 13%, at most 5% of 1,000 random splits are called faster or slower. A slowdown of
// 10% is found in 47% by 9 rounds, 80% by 18 and 86% by 21.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// A Comparison is what is known about a metric of A over that of B, in one place.
type Comparison struct {
	A, B   string // as result.Point.Subject
	Place  string // as result.Point.Place
	Metric runs.JudgedMetric

	Rounds           int     // that were compared
	MedianA, MedianB float64 // of the metric; NaN: there are none
	// Of A's to B's, and its interval; NaN: there is none, or one of the two is 0.
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
	Faster Conclusion = "faster" // A makes more purchases/s: the interval lies above 1
	Slower Conclusion = "slower" // the interval lies below 1
	Higher Conclusion = "higher" // as Faster, of any other metric; the metric says whether that is better
	Lower  Conclusion = "lower"
	// The interval lies between 1/(1+margin) and 1+margin, even if above or below 1.
	NoDifference Conclusion = "no difference"
	Undecided    Conclusion = "not decided"
)

// reversed is what is said of B and A.
func (c Conclusion) reversed() Conclusion {
	switch c {
	case Faster:
		return Slower
	case Slower:
		return Faster
	case Higher:
		return Lower
	case Lower:
		return Higher
	}
	return c
}

// Differs reports whether A and B are known to differ.
func (c Conclusion) Differs() bool { return c.reversed() != c }

// OfPurchases reports whether it compares purchases/s.
func (c Comparison) OfPurchases() bool { return c.Metric.Name == runs.PurchasesPerSecond }

// Reversed compares B with A.
func (c Comparison) Reversed() Comparison {
	c.A, c.B, c.MedianA, c.MedianB = c.B, c.A, c.MedianB, c.MedianA
	c.Ratio, c.Low, c.High = 1/c.Ratio, 1/c.High, 1/c.Low
	c.Verdict = c.Verdict.reversed()
	return c
}

// confidence is that of each of so many intervals: all of them hold at once with [Confidence].
func confidence(intervals int) float64 { return 1 - (1-Confidence)/float64(max(1, intervals)) }

// Fewest is how many rounds it takes to give so many intervals that hold at once. Whether there
// is one depends on the number of values, and not on what they are.
func Fewest(intervals int) int {
	n := 2
	for !median(make([]float64, n), confidence(intervals)).Known() {
		n++
	}
	return n
}

// Pairs are the subjects that a plan compares in each place: all others with the first, or
// in a sweep every pair. Of several servers each has a first, and what is on another is
// compared with the same on the first server, too. What others are compared with stands second
// in their pairs, by which package view groups what it says. Each pair more widens all
// intervals, see Intervals.
func Pairs(plan runs.Config) (all [][2]string) {
	subjects := plan.Subjects()
	if len(plan.Axes) > 0 {
		for i, a := range subjects {
			for _, b := range subjects[i+1:] {
				all = append(all, [2]string{a, b})
			}
		}
		return all
	}

	first := map[string]string{} // the first subject on each server
	seen := map[string]bool{}
	var acrossServers [][2]string
	for _, p := range plan.Points {
		a := p.Subject()
		if seen[a] {
			continue
		}
		seen[a] = true
		if b, there := first[p.Server]; there {
			all = append(all, [2]string{a, b})
		} else {
			first[p.Server] = a
		}

		// A strategy that is there again, as a control, is one of its own server.
		same := p
		same.Server = plan.Points[0].Server
		if b := same.Subject(); b != a && p.Spec() == p.Strategy && slices.Contains(subjects, b) {
			acrossServers = append(acrossServers, [2]string{a, b})
		}
	}
	return append(all, acrossServers...)
}

// Intervals is how many a plan takes for its comparisons: one for each pair, place and
// metric.
func Intervals(plan runs.Config) int {
	return len(Pairs(plan)) * len(plan.Places()) * len(plan.Judged())
}

// rounds are the rows of a run by what was measured when.
type rounds map[rowKey]*result.Row

type rowKey struct {
	subject, place string
	round          int
}

func roundsOf(run *runs.Run) rounds {
	all := rounds{}
	for i := range run.Rows {
		r := &run.Rows[i]
		all[rowKey{r.Subject(), r.Place(), r.Trial}] = r
	}
	return all
}

// Of compares the pairs of a run by each metric in each place, in the order of the plan;
// nil: the run was not made to compare.
func Of(run *runs.Run) []Comparison {
	c := run.Manifest.Config
	if c.Margin == nil {
		return nil
	}

	rows := roundsOf(run)
	each := confidence(Intervals(c))
	var all []Comparison
	for _, m := range c.Judged() {
		first := len(all)
		for _, place := range c.Places() {
			for _, ab := range Pairs(c) {
				pair := Comparison{A: ab[0], B: ab[1], Place: place, Metric: m, Confidence: each}
				all = append(all, rows.compare(pair, c.Trials, *c.Margin))
			}
		}
		doubt(all[first:]) // a control speaks for its own metric
	}
	return all
}

// compare fills in what the rounds of a plan say of a pair.
func (all rounds) compare(c Comparison, trials int, margin float64) Comparison {
	p := pair{Comparison: c}
	for round := 1; round <= trials; round++ {
		p.add(all[rowKey{c.A, c.Place, round}], all[rowKey{c.B, c.Place, round}])
	}
	return p.judge(trials, margin)
}

// doubt makes all comparisons by a metric undecided if a strategy differs from itself.
func doubt(all []Comparison) {
	reason := unlikeItself(all)
	if reason == "" {
		return
	}
	for i := range all {
		all[i].Verdict = Undecided
		all[i].Reason = reason
	}
}

// unlikeItself says which strategy differs from itself, and where; empty: none does.
func unlikeItself(all []Comparison) string {
	for _, c := range all {
		spec := result.Point{Strategy: c.A}.Spec()
		same := spec == result.Point{Strategy: c.B}.Spec()
		switch {
		case !same || !c.Verdict.Differs():
		case c.OfPurchases():
			return fmt.Sprintf("%s was %s than itself at %s", spec, c.Verdict, c.Place)
		default:
			return fmt.Sprintf("%s had a %s %s than itself at %s", spec, c.Verdict, c.Metric.Short, c.Place)
		}
	}
	return ""
}

type pair struct {
	Comparison
	ofA, ofB []float64 // the metric
	logs     []float64 // of their ratios: swapping A and B only changes the sign
	noRatio  string    // why a round has none; empty: each has one
}

// Stands for the rate of a row without a purchase, which is slower than any other.
const leastRate = 1e-6

// add adds the rows of a round, of which one that was not measured is nil. A problem, such as a
// failed audit, counts even in a round that is left out as disturbed.
func (p *pair) add(a, b *result.Row) {
	if a == nil || b == nil || a.Status != stored.Complete || b.Status != stored.Complete {
		return
	}
	for _, r := range []*result.Row{a, b} {
		if problem := r.Problem(); problem != "" && p.Reason == "" {
			p.Reason = fmt.Sprintf("%s %s in round %d", r.Subject(), problem, r.Trial)
		}
	}
	if took := max(a.Disturbed(), b.Disturbed()); took > 0 {
		p.Disturbed = append(p.Disturbed, took)
		return
	}

	logA, logB := p.log(a), p.log(b)
	p.ofA = append(p.ofA, p.Metric.Of(a))
	p.ofB = append(p.ofB, p.Metric.Of(b))
	p.logs = append(p.logs, logA-logB)
}

// log is the logarithm of a row's metric. A metric that is missing or 0 has no ratio, except
// purchases/s. The 0 that stands for it keeps the number of rounds: judge looks at noRatio.
func (p *pair) log(r *result.Row) float64 {
	v := p.Metric.Of(r)
	if p.OfPurchases() {
		return math.Log(max(v, leastRate))
	}

	what := ""
	switch {
	case math.IsNaN(v):
		what = "not known"
	case v <= 0:
		what = "0"
	default:
		return math.Log(v)
	}
	if p.noRatio == "" {
		p.noRatio = fmt.Sprintf("no ratio: %s of %s is %s in round %d", p.Metric.Short, r.Subject(), what, r.Trial)
	}
	return 0
}

// judge makes a verdict of the logarithms of the ratios inside rounds, whose median has an
// interval without any assumption about how they are distributed. Medians of both are shown
// beside, and decide nothing.
func (p *pair) judge(planned int, margin float64) Comparison {
	c := p.Comparison
	nan := math.NaN()
	c.MedianA, c.MedianB = nan, nan
	c.Ratio, c.Low, c.High = nan, nan, nan
	c.Verdict = Undecided
	if c.Reason != "" { // a row has a problem: no number is told
		return c
	}

	i := median(p.logs, c.Confidence)
	c.Rounds = i.N
	if i.N > 0 {
		c.MedianA = known(p.ofA)
		c.MedianB = known(p.ofB)
		c.Ratio = math.Exp(i.Center)
	}
	if i.Known() {
		c.Low, c.High = math.Exp(i.Low), math.Exp(i.High)
	}

	c.Reason = cmp.Or(p.noRatio, tooFew(i, c.Disturbed, planned, c.Confidence))
	if c.Reason == "" {
		c.Verdict = c.verdict(margin)
	}

	// A metric without a logarithm has counted as 1, and purchases/s of 0 as leastRate: the
	// ratio that came of that must not be shown. Of purchases/s the verdict stands.
	if p.noRatio != "" || c.MedianA == 0 || c.MedianB == 0 {
		c.Ratio, c.Low, c.High = nan, nan, nan
	}
	return c
}

// tooFew says why rounds do not decide, of which some were disturbed; empty: they may.
func tooFew(i Interval, disturbed []float64, planned int, confidence float64) string {
	n := len(disturbed)
	switch {
	case n > 0 && !i.Known():
		return fmt.Sprintf("%s in %d of %d rounds", Disturbance(disturbed), n, planned)
	case i.N+n < planned:
		return fmt.Sprintf("%d of %d rounds", i.N, planned)
	case !i.Known():
		return fmt.Sprintf("%d rounds give no interval at %.4g%%", i.N, 100*confidence)
	}
	return ""
}

// known is the median of values; NaN if one is not known.
func known(values []float64) float64 {
	if slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	return Median(values).Center
}

// verdict is what the interval of a ratio means. Ratios between 1/(1+margin) and 1+margin
// are no difference.
func (c Comparison) verdict(margin float64) Conclusion {
	above, below := Higher, Lower
	if c.OfPurchases() {
		above, below = Faster, Slower
	}
	switch {
	case c.Low >= 1/(1+margin) && c.High <= 1+margin:
		return NoDifference
	case c.Low > 1:
		return above
	case c.High < 1:
		return below
	}
	return Undecided
}

// Disturbance says in words what other processes took, from shares that are not empty.
func Disturbance(shares []float64) string {
	took := fmt.Sprintf("%.0f%%", 100*slices.Min(shares))
	if most := fmt.Sprintf("%.0f%%", 100*slices.Max(shares)); most != took {
		took = strings.TrimSuffix(took, "%") + " to " + most
	}
	return "other processes took " + took + " of this machine's time"
}

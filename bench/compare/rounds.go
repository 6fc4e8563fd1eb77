package compare

import (
	"fmt"
	"math"

	"github.com/marketsim/marketsim/bench/result"
)

// MaxRounds is the largest number of rounds that is asked for or suggested. A longer duration is then the better way.
const MaxRounds = 60

// Fewest is how many rounds so many pairs need, so that their ratios have an interval at all: 6 for one pair, 8 for 5.
func Fewest(pairs int) int {
	n := 2
	for !median(make([]float64, n), confidence(pairs)).Known() {
		n++
	}
	return n
}

// confidence is that of each of so many intervals which all hold at once with Confidence.
func confidence(pairs int) float64 { return 1 - (1-Confidence)/float64(max(1, pairs)) }

// Pairs is how many pairs there are of so many strategies under so many mixes, or at so many points of a sweep.
func Pairs(strategies, places int) int { return strategies * (strategies - 1) / 2 * places }

// Rounds compares each two strategies of a run under each of its mixes, or at each of its points if it is a sweep. It
// returns nil if the run was not made for that: its configuration has no margin then.
func Rounds(run *result.Run) []result.Comparison {
	c := run.Manifest.Config
	if c.Margin == nil {
		return nil
	}
	rows := map[place]result.Row{}
	for _, r := range run.Rows {
		rows[place{r.Strategy, r.Place(), r.Trial}] = r
	}
	places := c.Places()
	var all []result.Comparison
	for _, mix := range places {
		for i, a := range c.Strategies {
			for _, b := range c.Strategies[i+1:] {
				p := pair{a: a, b: b, mix: mix}
				p.measure(rows, c.Trials)
				all = append(all, p.judge(c.Trials, Pairs(len(c.Strategies), len(places)), *c.Margin))
			}
		}
	}
	return all
}

// A place is where a row stands in a run. Its mix is a point, if that is a sweep.
type place struct {
	strategy, mix string
	round         int
}

// A pair is two strategies under a mix, with what the rounds that have both measured.
type pair struct {
	a, b, mix      string
	ofA, ofB, logs []float64 // purchases/s, and the logarithms of their ratios: that of b to a is the negative one
	problem        string    // why the numbers must not be judged, or empty
}

func (p *pair) measure(rows map[place]result.Row, rounds int) {
	for round := 1; round <= rounds; round++ {
		a, hasA := rows[place{p.a, p.mix, round}]
		b, hasB := rows[place{p.b, p.mix, round}]
		if !hasA || !hasB || a.Status != result.Complete || b.Status != result.Complete {
			continue
		}
		for _, r := range []result.Row{a, b} {
			if problem := unfit(r); problem != "" && p.problem == "" {
				p.problem = fmt.Sprintf("%s %s in round %d", r.Strategy, problem, round)
			}
		}
		if p.problem == "" {
			p.ofA, p.ofB = append(p.ofA, a.PurchasesPerSecond), append(p.ofB, b.PurchasesPerSecond)
			p.logs = append(p.logs, math.Log(a.PurchasesPerSecond)-math.Log(b.PurchasesPerSecond))
		}
	}
}

// unfit says why a row has no purchases/s that another's could be divided by, or nothing.
func unfit(r result.Row) string {
	switch problem := r.Problem(); {
	case problem != "":
		return problem
	case r.PurchasesPerSecond == 0:
		return "bought nothing"
	case r.PurchasesPerSecond < 1e-9 || r.PurchasesPerSecond > 1e12:
		return "holds impossible numbers"
	}
	return ""
}

// judge says what the rounds say, of which so many were planned.
func (p *pair) judge(planned, pairs int, margin float64) result.Comparison {
	i := median(p.logs, confidence(pairs))
	c := result.Comparison{A: p.a, B: p.b, Mix: p.mix, Confidence: confidence(pairs), Verdict: result.Undecided}
	if p.problem != "" {
		c.Reason = p.problem
		return c
	}
	describe(&c, i, p.ofA, p.ofB)
	switch {
	case i.N < planned:
		c.Reason = fmt.Sprintf("%d of %d rounds", i.N, planned)
	case !i.Known():
		c.MightDo = Fewest(pairs)
		c.Reason = fmt.Sprintf("%d rounds give no interval at %.4g%%; %d do", i.N, 100*c.Confidence, c.MightDo)
	default:
		c.Verdict = word(i, margin)
		if c.Verdict == result.Undecided {
			c.MightDo = mightDo(i, margin)
		}
	}
	return c
}

// describe fills in the numbers, of which there are none without rounds. The interval is of logarithms.
func describe(c *result.Comparison, i Interval, ofA, ofB []float64) {
	if c.Rounds = i.N; i.N == 0 {
		return
	}
	c.PerSecondA, c.PerSecondB = Median(ofA).Center, Median(ofB).Center
	ratio := math.Exp(i.Center)
	c.Ratio = &ratio
	if i.Known() {
		low, high := math.Exp(i.Low), math.Exp(i.High)
		c.Low, c.High = &low, &high
	}
}

// word is the verdict on the interval of the logarithm of a ratio. A ratio lies inside the margin if it does whichever of
// the two is divided by the other.
func word(i Interval, margin float64) result.Compared {
	within := math.Log1p(margin)
	switch {
	case i.Low >= -within && i.High <= within:
		return result.NoDifference
	case i.Low > 0:
		return result.Faster
	case i.High < 0:
		return result.Slower
	}
	return result.Undecided
}

// mightDo estimates how many rounds would decide what these did not, if the median stays where it is: an interval
// narrows with the square root of their number, until it excludes 1 or lies inside the margin. It is a multiple of 3, and
// 0 if it is more than MaxRounds.
func mightDo(i Interval, margin float64) int {
	off := math.Abs(i.Center)
	goal := max(off, math.Log1p(margin)-off)
	needed := math.Ceil(float64(i.N) * math.Pow((i.High-i.Low)/2/goal, 2) / 3) // multiples of 3
	needed = max(needed, float64(i.N/3+1))
	if !(3*needed <= MaxRounds) {
		return 0
	}
	return 3 * int(needed)
}

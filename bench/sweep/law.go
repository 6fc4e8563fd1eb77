package sweep

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/marketsim/marketsim/bench/result"
)

// FewestPoints is how many points the universal scalability law is fitted to at least: it has three parameters, and
// through three points it goes whatever they are.
const FewestPoints = 6

// law fits the law to a strategy's medians along a line of clients, or says why not.
func law(l Line, points []result.SweepPoint, strategy string) result.Law {
	fitted := result.Law{Line: l.Line, Strategy: strategy}
	var n, x []float64
	left := ""
	for i, at := range l.Points {
		for _, m := range points[at].Strategies {
			switch {
			case m.Strategy != strategy:
			case m.Problem != "":
				left = fmt.Sprintf(", without that of %s, where it %s", result.Clients.Say(l.Values[i]), m.Problem)
			default:
				n, x = append(n, l.Values[i]), append(x, m.PerSecond.Median)
			}
		}
	}
	if len(n) > 0 {
		fitted.MaxN = n[len(n)-1]
	}
	fitted.Points = len(n)
	f, err := Fit(n, x)
	if err != nil {
		fitted.Why = err.Error() + left
		return fitted
	}
	f.Line, f.Strategy, f.Points, f.MaxN = fitted.Line, fitted.Strategy, fitted.Points, fitted.MaxN
	return f
}

// Fit fits the universal scalability law to the throughput x of n clients. The law is linear in 1/Lambda, Sigma/Lambda
// and Kappa/Lambda, if it is written for N/X:
//
//	N/X = 1/Lambda + Sigma/Lambda*(N-1) + Kappa/Lambda*N*(N-1)
//
// so that least squares of N/X give them. Throughput varies by a part of itself, and so does N/X: each point has the weight
// (X/N)^2, because without weights the slowest point, where N/X is a hundred times as large, would decide alone. No
// parameter can be negative: of the fits in which each of them is free or 0 the best is taken that has no negative one. R2
// is of X, because that is what is drawn.
//
// The error says why nothing was fitted: there are fewer than [FewestPoints], a throughput is not positive, or the best
// fit has no finite Lambda.
//
// Source: N. J. Gunther, "Guerrilla Capacity Planning", Springer, 2007, chapters 4 to 6.
func Fit(n, x []float64) (result.Law, error) {
	if len(n) < FewestPoints {
		return result.Law{}, fmt.Errorf("%d points along clients, and it takes %d", len(n), FewestPoints)
	}
	for i := range x {
		if !(n[i] > 0 && x[i] > 0) {
			return result.Law{}, errors.New("a throughput is not positive")
		}
	}
	var best [3]float64
	least := math.Inf(1)
	for _, free := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}} {
		p, err := linear(n, x, free)
		if err != nil || slices.Min(p[:]) < 0 {
			continue
		}
		if missed := squares(p, n, x); missed < least {
			best, least = p, missed
		}
	}
	if best[0] == 0 {
		return result.Law{}, errors.New("the best fit has no finite lambda")
	}
	law := result.Law{
		Lambda: 1 / best[0], Sigma: best[1] / best[0], Kappa: best[2] / best[0], Points: len(n), MaxN: n[len(n)-1],
	}
	law.R2 = determination(law, n, x)
	law.Peak, law.PeakX = peak(law)
	return law, nil
}

// terms are what the parameters of N/X are multiplied with.
var terms = [3]func(n float64) float64{
	func(float64) float64 { return 1 },
	func(n float64) float64 { return n - 1 },
	func(n float64) float64 { return n * (n - 1) },
}

// linear is the weighted least-squares solution for the parameters of N/X of which those in free may differ from 0. What
// is too small to be told from 0 is 0.
func linear(n, x []float64, free []int) (p [3]float64, err error) {
	largest := n[len(n)-1]
	scale := func(term int) float64 { return max(1, terms[term](largest)) } // so that the columns are of one size
	a, b := mat.NewDense(len(n), len(free), nil), mat.NewVecDense(len(n), nil)
	most := slices.Max(x)
	for i := range n {
		weight := x[i] / most / n[i]
		for j, term := range free {
			a.Set(i, j, weight*terms[term](n[i])/scale(term))
		}
		b.SetVec(i, weight*n[i]/x[i]) // the same for all
	}
	var solved mat.VecDense
	if err := solved.SolveVec(a, b); err != nil {
		return p, err
	}
	size := mat.Norm(&solved, math.Inf(1))
	const negligible = 1e-12
	for j, term := range free {
		if v := solved.AtVec(j); math.Abs(v) > negligible*size {
			p[term] = v / scale(term)
		}
	}
	return p, nil
}

// squares is by how much parameters miss the points' N/X, with their weights.
func squares(p [3]float64, n, x []float64) (sum float64) {
	for i := range n {
		miss := n[i] / x[i]
		for term := range p {
			miss -= p[term] * terms[term](n[i])
		}
		sum += math.Pow(miss*x[i]/n[i], 2)
	}
	return sum
}

// determination is R2: by how much the law is nearer to the points than their mean.
func determination(l result.Law, n, x []float64) float64 {
	mean, residual, total := 0.0, 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i, v := range x {
		residual += math.Pow(v-l.X(n[i]), 2)
		total += math.Pow(v-mean, 2)
	}
	if same := 1e-18 * mean * mean * float64(len(x)); total <= same { // nothing but rounding: a level Line
		if residual <= same {
			return 1
		}
		return 0
	}
	return 1 - residual/total
}

// peak is at how many clients the throughput of a law is largest, and the throughput there; zeros if it only grows.
func peak(l result.Law) (n, x float64) {
	const forEver = 1e9 // clients
	switch {
	case l.Kappa == 0 && l.Sigma <= 1:
		return 0, 0
	case l.Sigma >= 1:
		n = 1
	default:
		n = math.Max(1, math.Sqrt((1-l.Sigma)/l.Kappa))
	}
	if n > forEver {
		return 0, 0
	}
	return n, l.X(n)
}

package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// claim is one statement of a source about what it measured.
type claim struct {
	text, published, tolerance string
	// measure is what one round shows. An error says why it cannot be judged.
	measure func(round) (finding, error)
	words   func(values []float64) string // says the values of a finding, or their medians
	number  string                        // says the number of a finding
	holds   func(number float64) bool     // the tolerance; it has one limit, so that it holds for all numbers on one side
}

// finding is what a claim finds in a round: values, and the one number that it is judged by. Where the claim speaks of
// every mix, that is the number of the worst.
type finding struct {
	values []float64
	number float64
}

// Judge says of each claim of the book whether a run bears it out. A claim's number is computed in each round, and it holds
// when the 95% interval of their median lies inside the tolerance, does not hold when it lies outside, and is not decided
// when it lies on both sides, or while rounds are missing: they were fixed beforehand, and to stop when one likes the
// result would make a claim out of chance. One trial has no interval, and is judged by its one number.
//
// A claim is not judged (Measured says why) when a row it needs is missing, not complete or without an audit that found
// the market right, or when the rows were not measured on a real server.
func Judge(run *result.Run) []result.Claim {
	judged := make([]result.Claim, 0, len(bookClaims))
	for i, c := range bookClaims {
		out := result.Claim{
			ID: 1 + i, Text: c.text, Published: c.published, Tolerance: c.tolerance, Verdict: result.NotJudged,
		}
		if run.Manifest.Backend == "embedded" {
			out.Measured = "numbers of the embedded server are not Redis's: not judged"
		} else {
			c.judge(run.Rounds(), run.Planned(), &out)
		}
		judged = append(judged, out)
	}
	return judged
}

// judge fills in what the complete rounds out of so many planned ones say.
func (c claim) judge(rounds [][]result.Row, planned int, out *result.Claim) {
	if len(rounds) == 0 {
		out.Measured, out.Verdict = "not one round is complete", result.NotDecided
		return
	}
	var numbers []float64
	var values [][]float64 // of each round
	for i, rows := range rounds {
		f, err := c.measure(rows)
		if err != nil {
			out.Measured = err.Error()
			if planned > 1 {
				out.Measured += fmt.Sprintf(" in round %d", i+1)
			}
			return
		}
		numbers, values = append(numbers, f.number), append(values, f.values)
	}
	medians := make([]float64, len(values[0]))
	for i := range medians {
		var each []float64
		for _, v := range values {
			each = append(each, v[i])
		}
		medians[i] = compare.Median(each).Center
	}
	number := compare.Median(numbers)
	said := fmt.Sprintf(c.number, short(number.Center))
	holds := c.holds(number.Center)
	switch {
	case planned == 1:
		out.Verdict, out.Holds = result.OneTrial, &holds
	case len(rounds) < planned || !number.Known():
		out.Verdict = result.NotDecided
		said += fmt.Sprintf(" in %d of %d rounds", len(rounds), planned)
	default:
		out.Verdict = result.NotDecided
		if c.holds(number.Low) == c.holds(number.High) {
			out.Holds, out.Verdict = &holds, result.DoesNot
			if holds {
				out.Verdict = result.Holds
			}
		}
		out.Low, out.High = &number.Low, &number.High
		said += fmt.Sprintf(", 95%% interval %s to %s", short(number.Low), short(number.High))
	}
	out.Measured = c.words(medians) + " (" + said + ")"
}

// round is what claims are judged on: rows that were measured one after the other.
type round []result.Row

// all returns a strategy's rows under the mixes. Its error says why one of them must not be judged.
func (r round) all(strategy string, mixes ...result.Mix) ([]result.Row, error) {
	var rows []result.Row
	for _, m := range mixes {
		name := strategy + " " + m.String()
		i := slices.IndexFunc(r, func(row result.Row) bool { return row.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("not judged: %s was not measured", name)
		}
		if problem := r[i].Problem(); problem != "" {
			return nil, fmt.Errorf("not judged: %s %s", name, problem)
		}
		rows = append(rows, r[i])
	}
	return rows, nil
}

// buying is all, for claims about each purchase: rows that bought nothing say nothing about them.
func (r round) buying(strategy string, mixes ...result.Mix) ([]result.Row, error) {
	rows, err := r.all(strategy, mixes...)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Bought == 0 {
			return nil, fmt.Errorf("not judged: %s bought nothing", row.Name())
		}
	}
	return rows, nil
}

// byMix spells one value per mix: "2.96 at 1x1, 268 at 5x5". The unit follows the first.
func byMix(unit string, mixes ...result.Mix) func([]float64) string {
	return func(values []float64) string {
		parts := make([]string, 0, len(mixes))
		for i, m := range mixes {
			parts = append(parts, short(values[i])+unit[:len(unit)*max(0, 1-i)]+" at "+m.String())
		}
		return strings.Join(parts, ", ")
	}
}

// short prints a number with three digits or so, never as an exponent: 0, 0.44, 12.3, 3717.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "less than 0.01"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

package reference

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
)

// Judge says of each claim of the book whether a run bears it out. A claim's number
// is computed in each round in which the rows that it needs were steady, and other
// processes did not disturb them. The claim holds when the 95% interval of the median of
// these numbers lies inside the tolerance, does not hold when the interval lies outside,
// and is not decided when it lies on both sides, or while rounds are missing: to stop when
// one likes the result would make a claim out of chance.
//
// A claim is not judged (Measured says why) when a row that it needs is missing, has
// operations that were not followed to their end, or was not found right by an audit; when
// other processes disturbed so many rounds that the rest is too few; nor when it holds and
// nothing came near to what it excludes. On the embedded server only claims about what is
// sent are judged. If the rounds are too few for an interval, unsteady
// ones count, too, and the verdict is whether the claim holds in every one.
func Judge(run *runs.Run) []runs.Claim {
	var judged []runs.Claim
	for i, c := range claimsOn(SourceOf(run)) {
		out := runs.Claim{ID: 1 + i, Text: c.text, Published: c.published, Tolerance: c.tolerance}
		out.Verdict = runs.NotJudged
		if run.Manifest.Backend == "embedded" && !c.anywhere {
			out.Measured = "about speed, and the embedded server's is not Redis's"
		} else {
			c.judge(run, &out)
		}
		judged = append(judged, out)
	}
	return judged
}

// claimsOn are the claims that a reproduction is judged by: the book's, of the strategies
// that lock as its source does, and for one of others' what is said of locks there.
func claimsOn(source string) []claim {
	on := slices.Clone(claims)
	if source == Jedis {
		on = append(on, neverExecuted())
	}
	for i, c := range on {
		on[i].rows = nil // append must not write into the rows of claims
		for _, locking := range c.rows {
			on[i].rows = append(on[i].rows, specOf(source, locking))
		}
	}
	return on
}

// judge fills in what a run says of the claim. Judge has set out.Verdict to NotJudged, which it
// stays where collect fails.
func (c claim) judge(run *runs.Run, out *runs.Claim) {
	seen := evidence{rounds: run.CompleteRounds(), planned: run.Manifest.Config.Trials}
	if len(seen.rounds) == 0 {
		out.Measured, out.Verdict = "not one round is complete", runs.NotDecided
		return
	}
	if err := c.collect(&seen); err != nil {
		out.Measured = "not judged: " + err.Error()
		return
	}

	number := compare.Median(seen.numbers)
	verdict, why := c.verdict(seen, number)
	out.Verdict = verdict
	out.Measured = c.summary(seen, number)
	if why != "" {
		out.Measured += "; not judged: " + why
	}
	if seen.decides(number) {
		out.Low, out.High = &number.Low, &number.High
	}
}

// evidence is what a run shows of a claim.
type evidence struct {
	rounds  [][]result.Row // the complete ones
	planned int

	values    [][]float64 // round by round: in each, those of the rows that the claim needs
	numbers   []float64   // the claim's, of the rounds that count
	unsteady  string      // a row that was not steady, in the first such round that does not count
	disturbed []float64   // what other processes took of the machine, in rounds that they disturbed
}

// few reports whether several rounds were planned, and they are too few for an interval.
func (e evidence) few() bool { return e.planned > 1 && e.planned < compare.Fewest(1) }

// decides reports whether no round is missing, and there is an interval.
func (e evidence) decides(number compare.Interval) bool {
	return len(e.rounds) >= e.planned && number.Known()
}

// collect computes the claim's number in each round. A round counts if it was undisturbed
// and all its rows were steady; if rounds are few, unsteady ones count, too.
func (c claim) collect(seen *evidence) error {
	for _, rows := range seen.rounds {
		round := rows[0].Trial
		values, unsteady, err := c.values(rows)
		if err != nil {
			return fmt.Errorf("%w in round %d", err, round)
		}
		number := c.number(values)
		if math.IsNaN(number) {
			return fmt.Errorf("nothing happened in round %d", round)
		}
		seen.values = append(seen.values, values)

		// Every round's values are shown; only some decide.
		took := c.disturbed(rows)
		if took > 0 {
			seen.disturbed = append(seen.disturbed, took)
		}
		switch {
		case took == 0 && (seen.few() || unsteady == ""):
			seen.numbers = append(seen.numbers, number)
		case unsteady != "" && seen.unsteady == "":
			seen.unsteady = fmt.Sprintf("%s was not steady in round %d", unsteady, round)
		}
	}
	return nil
}

// summary says what was measured, and in how many rounds if some do not count.
func (c claim) summary(seen evidence, number compare.Interval) string {
	text := c.medians(seen.values)
	if number.N > 0 {
		text += " (" + fmt.Sprintf(c.say, short(number.Center)) + ")"
	}

	needed := max(seen.planned, compare.Fewest(1))
	if number.N < needed && !seen.few() {
		text += fmt.Sprintf(" in %d of %d rounds", number.N, needed)
	}

	if seen.unsteady != "" {
		text += "; " + seen.unsteady
	}
	return text
}

// verdict judges the claim by the interval of its number: by its two ends, as c.holds is true
// on one side of a limit. why is for a claim that is not judged.
func (c claim) verdict(seen evidence, number compare.Interval) (verdict runs.Judgment, why string) {
	fails := func(n float64) bool { return !c.holds(n) }
	switch {
	case len(seen.disturbed) > 0 && !number.Known():
		return runs.NotJudged, fmt.Sprintf("%s in %d of %d rounds",
			compare.Disturbance(seen.disturbed), len(seen.disturbed), len(seen.rounds))
	// Without idle: the command plans so few rounds on the embedded server alone, and of the
	// claims that are judged there (anywhere) none has couldFail.
	case seen.few() && number.N == seen.planned && !slices.ContainsFunc(seen.numbers, fails):
		return runs.InEvery, ""
	case !seen.decides(number):
		return runs.NotDecided, ""
	}

	low, high := c.holds(number.Low), c.holds(number.High)
	switch {
	case low && high && c.idle(seen.rounds):
		return runs.NotJudged, c.void
	case low && high:
		return runs.Holds, ""
	case !low && !high:
		return runs.DoesNot, ""
	}
	return runs.NotDecided, ""
}

// disturbed is the most that other processes took of the machine, 0 to 1, from a row of a
// round that the claim needs; 0: from none too much to judge it.
func (c claim) disturbed(round []result.Row) (most float64) {
	for i := range round {
		if r := &round[i]; slices.Contains(c.rows, r.Strategy) && slices.Contains(c.mixes, r.Mix) {
			most = max(most, r.Disturbed())
		}
	}
	return most
}

// idle reports whether what the claim excludes could have happened in none of its rows.
func (c claim) idle(rounds [][]result.Row) bool {
	couldFail := func(r result.Row) bool { return slices.Contains(c.rows, r.Strategy) && c.couldFail(&r) }
	return c.couldFail != nil && !slices.ContainsFunc(slices.Concat(rounds...), couldFail)
}

// values are those of the rows that the claim needs in a round, or why not to judge it: of
// each strategy all mixes, an order on which c.number and medians rely. unsteady names an
// unsteady row; empty: all were steady.
func (c claim) values(round []result.Row) (all []float64, unsteady string, err error) {
	for _, strategy := range c.rows {
		for _, mix := range c.mixes {
			// It may have begun without listings; all else of its load is the default.
			i := slices.IndexFunc(round, func(r result.Row) bool {
				return r.Point == result.Point{Strategy: strategy, Mix: mix, Load: result.Load{Empty: r.Empty}}
			})
			if i < 0 {
				return nil, "", fmt.Errorf("%s %s was not measured", strategy, mix)
			}

			// A row that failed, or that lost sight of operations, has no number to go by.
			r := &round[i]
			v := c.value(r)
			switch problem := r.Problem(); {
			case problem != "":
				return nil, "", fmt.Errorf("%s %s %s", strategy, mix, problem)
			case r.Cut > 0:
				return nil, "", fmt.Errorf("%s %s has operations that were not followed to their end", strategy, mix)
			case r.Bought == 0 && (math.IsNaN(v) || math.IsInf(v, 0)):
				return nil, "", fmt.Errorf("%s %s bought nothing", strategy, mix)
			case math.IsNaN(v):
				return nil, "", fmt.Errorf("%s %s did not count it", strategy, mix)
			}

			all = append(all, v)
			if r.Warned(result.Unsteady) {
				unsteady = r.Name()
			}
		}
	}
	return all, unsteady, nil
}

// medians writes the median of each row over all rounds: "fine 2967 a second at 1x1, 2006 at
// 5x1; coarse 1656 at 1x1, 517 at 5x1". Strategies are named if there are several, and the unit
// follows the first number alone. each has what values returned, round by round.
func (c claim) medians(each [][]float64) string {
	var parts []string
	unit := c.unit
	for s, strategy := range c.rows {
		var of []string
		for m, mix := range c.mixes {
			var values []float64
			for _, round := range each {
				values = append(values, round[s*len(c.mixes)+m])
			}
			of = append(of, short(compare.Median(values).Center)+unit+" at "+mix.String())
			unit = ""
		}

		if len(c.rows) > 1 {
			of[0] = strategy + " " + of[0]
		}
		parts = append(parts, strings.Join(of, ", "))
	}
	return strings.Join(parts, "; ")
}

// short writes a number with about three digits: 0, 0.44, 12.3, 3717.
func short(v float64) string {
	digits := 2 - int(math.Floor(math.Log10(max(v, 0.01))))
	if v > 0 && v < 0.01 {
		return "less than 0.01"
	}
	digits = max(0, min(2, digits))
	scale := math.Pow10(digits)
	return humanize.FtoaWithDigits(math.Round(v*scale)/scale, digits)
}

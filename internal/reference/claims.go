package reference

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/metric"
	"github.com/marketsim/marketsim/internal/runs"
)

// claim is one statement of the book about what it measured. Its number is computed in
// each round from values, one for each row that it speaks of; for a claim about every mix
// it is the number of the worst mix.
type claim struct {
	text, published, tolerance string
	rows                       []string // the strategies whose rows it needs, under mixes
	mixes                      []result.Mix
	value                      func(*result.Row) float64
	number                     func(values []float64) float64
	holds                      func(number float64) bool // for all numbers on one side of a limit
	unit                       string                    // of the values, said once
	say                        string                    // how to say the number: "at most %s"
	// It is about what is sent, however fast the server is.
	anywhere bool

	// couldFail reports whether what the claim excludes could have happened in a row;
	// nil: always. If it could happen in no row, that the claim holds means nothing, and
	// it is not judged; void says why.
	couldFail func(*result.Row) bool
	void      string
}

// The tolerances, decided before anything was measured, and wide, because the hardware is
// not the book's. Only longWaitMS came after the stored runs: it makes no claim hold or
// fail, and only says which runs cannot tell.
const (
	growth = 3.0 // "grows with load": at 5x5 at least this many times the value at 1x1
	// "no retries": at most this many per 1,000 purchases (the book has <10 in 13,000)
	retriesPer1000 = 1.0
	within         = 20.0 // "close to", "about the same", in percent
	shortWaitMS    = 3.0  // "the wait stays low"
	// "no retries": a lock gives up after 10 s, and an order that waited half
	// of that could have
	longWaitMS = 5e3
	busy       = 1e5 // commands a second: "100,000 to 225,000 operations a second"
)

const fromNothing = 1e6 // the most that times returns, such as for anything over nothing

// The mixes of the book.
var (
	every        = []result.Mix{{Sellers: 1, Buyers: 1}, {Sellers: 5, Buyers: 1}, {Sellers: 5, Buyers: 5}}
	lightAndFull = []result.Mix{every[0], every[2]}
	full         = []result.Mix{every[2]}
)

// claims are those of SOURCES.md, in its order; a test compares
// the numbers with published.csv.
var claims = []claim{
	{
		text:      "watch: retries per purchase grow with load",
		published: "2.96 at 1x1, more than 268 at 5x5 (the book's text: about 250)",
		tolerance: "at 5x5 at least 3 times the retries per purchase of 1x1",
		rows:      []string{"watch"}, mixes: lightAndFull, value: metric.ByName("retries_per_purchase").Of,
		number: grown, holds: atLeast(growth), say: "%s times", anywhere: true,
	},
	{
		text:      "watch: the wait for a purchase grows with load",
		published: "14 ms at 1x1, 498 ms at 5x5",
		tolerance: "at 5x5 at least 3 times the mean wait of 1x1",
		rows:      []string{"watch"}, mixes: lightAndFull, value: metric.ByName("wait_ms_mean").Of,
		number: grown, holds: atLeast(growth), unit: " ms", say: "%s times", anywhere: true,
	},
	noRetries("coarse", "0 per 1,000 purchases at 1x1, fewer than 0.77 at 5x1, 0 at 5x5"),
	listedToBought("coarse", "listed/bought 1.02 at 1x1, 5.23 at 5x1, 1.02 at 5x5"),
	noRetries("fine", "0 per 1,000 purchases at 1x1, 0 at 5x1, 0 at 5x5"),
	{
		text:      "fine: more purchases than coarse",
		published: "1833 a second at 1x1, 600 at 5x1, 1850 at 5x5; coarse 833, 217 and 342: 2.20, 2.77 and 5.41 times",
		tolerance: "more purchases per second than coarse in every mix",
		rows:      []string{"fine", "coarse"}, mixes: every, value: (*result.Row).PerSecond,
		number: func(v []float64) float64 {
			fine, coarse := v[:3], v[3:]
			return slices.Min(quotients(fine, coarse))
		},
		holds: func(n float64) bool { return n > 1 }, unit: " a second", say: "at least %s times", anywhere: true,
	},
	{
		text:      "fine: listings plus purchases are about the same in every mix",
		published: "3717 a second at 1x1, 3800 at 5x1, 3783 at 5x5",
		tolerance: "listings plus purchases per second of every mix within 20% of the mean of the three",
		rows:      []string{"fine"}, mixes: every,
		value: func(r *result.Row) float64 { return float64(r.Listed+r.Bought) / r.Seconds },
		number: func(v []float64) float64 {
			mean := (v[0] + v[1] + v[2]) / 3
			return max(percentOff(v[0], mean), percentOff(v[1], mean), percentOff(v[2], mean))
		},
		holds: atMost(within), unit: " a second", say: "at most %s%% from their mean",
	},
	{
		text:      "fine: the wait stays low under full load",
		published: "less than 3 ms at 5x5; coarse 14 ms, watch 498 ms",
		tolerance: "mean wait at 5x5 below 3 ms, and below those of coarse and watch",
		rows:      []string{"fine", "coarse", "watch"}, mixes: full, value: metric.ByName("wait_ms_mean").Of,
		number: func(v []float64) float64 {
			fine, coarse, watch := v[0], v[1], v[2]
			return times(fine, min(shortWaitMS, coarse, watch))
		},
		holds: below(1), unit: " ms", say: "%s times the least of 3 ms and theirs",
	},
	{
		text:      "fine: no wait is long under full load",
		published: "less than 3 ms at 5x5",
		tolerance: "the longest wait at 5x5 below 3 ms",
		rows:      []string{"fine"}, mixes: full, value: metric.ByName("wait_ms_max").Of,
		number: slices.Max[[]float64], holds: below(shortWaitMS), unit: " ms", say: "at most %s ms",
	},
	{
		text: "locks: fewer items are listed than with watch",
		published: "2417 a second at 1x1, 5517 at 5x1, 3433 at 5x5 with watch; " +
			"coarse 850, 1133 and 350; fine 1883, 3200 and 1933",
		tolerance: "fewer listings per second than watch with either lock, in every mix",
		rows:      []string{"watch", "coarse", "fine"}, mixes: every,
		value: func(r *result.Row) float64 { return float64(r.Listed) / r.Seconds },
		number: func(v []float64) float64 {
			watch, coarse, fine := v[:3], v[3:6], v[6:]
			return max(slices.Max(quotients(coarse, watch)), slices.Max(quotients(fine, watch)))
		},
		holds: below(1), unit: " a second", say: "at most %s of watch's", anywhere: true,
	},
	{
		text:      "Redis does 100,000 to 225,000 operations a second",
		published: "100,000 to 225,000 operations a second, depending on the machine",
		tolerance: "at least 100,000 commands a second in one of the nine rows",
		rows:      []string{"watch", "coarse", "fine"}, mixes: every, value: metric.ByName("commands_per_second").Of,
		number: slices.Max[[]float64], holds: atLeast(busy), unit: " commands a second", say: "at most %s",
	},
	listedToBought("fine", "listed/bought 1.03 at 1x1, 5.33 at 5x1, 1.05 at 5x5"),
}

func noRetries(strategy, published string) claim {
	retries := metric.ByName("retries_per_purchase").Of
	return claim{
		text:      strategy + ": purchases need no retries",
		published: published,
		tolerance: "at most 1 retry per 1,000 purchases in every mix, and one order that waits for 5 s",
		rows:      []string{strategy}, mixes: every, value: func(r *result.Row) float64 { return 1000 * retries(r) },
		number: slices.Max[[]float64], holds: atMost(retriesPer1000), unit: " per 1,000 purchases", say: "at most %s",
		couldFail: func(r *result.Row) bool {
			return r.Retries > 0 || max(r.WaitMS.Max, r.GivenUpMS.Max) >= longWaitMS
		},
		void: "a retry is a lock's time-out of 10 s, and no order waited for half of that",
	}
}

func listedToBought(strategy, published string) claim {
	return claim{
		text:      strategy + ": listed to bought is close to listers to buyers",
		published: published,
		tolerance: "listed/bought within 20% of listers/buyers in every mix",
		rows:      []string{strategy}, mixes: every,
		value: func(r *result.Row) float64 { return float64(r.Listed) / float64(r.Bought) },
		number: func(v []float64) (furthest float64) {
			for i, m := range every {
				furthest = max(furthest, percentOff(v[i], float64(m.Sellers)/float64(m.Buyers)))
			}
			return furthest
		},
		holds: atMost(within), say: "at most %s%% from listers/buyers",
	}
}

func below(limit float64) func(float64) bool   { return func(n float64) bool { return n < limit } }
func atMost(limit float64) func(float64) bool  { return func(n float64) bool { return n <= limit } }
func atLeast(limit float64) func(float64) bool { return func(n float64) bool { return n >= limit } }

func grown(v []float64) float64 { return times(v[1], v[0]) }

// times is how many times b is in a; NaN if both are 0.
func times(a, b float64) float64 { return min(a/b, fromNothing) }

func quotients(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = times(a[i], b[i])
	}
	return all
}

func percentOff(v, from float64) float64 { return 100 * math.Abs(v-from) / from }

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
	for i, c := range claims {
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

	values    [][]float64 // of each row that the claim needs, round by round
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

// verdict judges the claim by the interval of its number. why is for a claim that is not
// judged.
func (c claim) verdict(seen evidence, number compare.Interval) (verdict runs.Judgment, why string) {
	fails := func(n float64) bool { return !c.holds(n) }
	switch {
	case len(seen.disturbed) > 0 && !number.Known():
		return runs.NotJudged, fmt.Sprintf("%s in %d of %d rounds",
			compare.Disturbance(seen.disturbed), len(seen.disturbed), len(seen.rounds))
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

// values are those of the rows that the claim needs in a round, or why not to judge it;
// unsteady names an unsteady row.
func (c claim) values(round []result.Row) (all []float64, unsteady string, err error) {
	for _, strategy := range c.rows {
		for _, mix := range c.mixes {
			i := slices.IndexFunc(round, func(r result.Row) bool {
				return r.Point == result.Point{Strategy: strategy, Mix: mix, Load: result.Load{Empty: r.Empty}}
			})
			if i < 0 {
				return nil, "", fmt.Errorf("%s %s was not measured", strategy, mix)
			}
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

// medians writes the values of the rows: "2.96 at 1x1, 268 at 5x5; coarse 1.5 at 1x1,
// ...". The unit follows the first.
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

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// A table ends with a line that says in plain words what its numbers mean. It is made from them, and is careful in three
// ways. What failed its audit is named first, and is never said to be fast. A difference is stated only where it is
// decided: the verdicts of a comparison decide it, or the disjoint intervals of two medians. What a single round shows is
// told as what that round showed.
//
// The files meaning*.go hold these lines, by kinds of tables, standings.go says who is ahead, and findings.go tells a whole
// result.

// inWords begins the line.
const inWords = "In words: "

// mostLines is how many lines of a text it has.
const mostLines = 2

// brief is a line of sentences, the most important first, as far as they fit. The first is there in any case.
func brief(sentences ...string) string {
	said := ""
	for _, s := range some(sentences...) {
		if longer := joined(" ", said, s); said == "" || fits(longer) {
			said = longer
		}
	}
	return said
}

// fits reports whether a line is short enough.
func fits(line string) bool { return len(wrap(inWords+line, Width)) <= mostLines }

// say is a line of sentences and, behind them, remarks in one sentence, as far as they fit. The first of all is there in
// any case. A remark begins with a small letter or a name, and has no full stop.
func (v view) say(sentences []string, remarks ...string) string {
	names := map[string]bool{}
	for _, w := range v.ways {
		names[w.name] = true
	}
	return say(brief(sentences...), v.when(), names, remarks...)
}

// say is view.say, with what stands before the remarks, and the names that keep a small letter.
func say(sentences, when string, names map[string]bool, remarks ...string) string {
	said, spoken := sentences, ""
	for _, remark := range some(remarks...) {
		longer := joined("; ", spoken, remark)
		if line := joined(" ", sentences, capital(when+longer, names)+"."); said == "" || fits(line) {
			said, spoken = line, longer
		}
	}
	return said
}

// capital begins a sentence with a capital letter, unless it begins with a name.
func capital(sentence string, names map[string]bool) string {
	first, _, _ := strings.Cut(sentence, " ")
	if names[first] || sentence == "" || sentence[0] < 'a' || sentence[0] > 'z' {
		return sentence
	}
	return strings.ToUpper(sentence[:1]) + sentence[1:]
}

// InWords gives a document of [Records] the line that says what they mean.
func (d *Document) InWords(text string) *Document {
	d.sections[len(d.sections)-1].meaning = clean(text)
	return d
}

// An evidence is what the rounds of a run can show.
type evidence int

const (
	oneRound   evidence = iota // what one round showed, and the next may not
	tooFew                     // several rounds, but too few for intervals
	endedEarly                 // the run ended before its last round: nothing is decided
	intervals                  // the medians of all rounds that were planned have intervals
)

func weigh(res *result.Run) evidence {
	planned := res.Planned()
	switch {
	case planned == 1 && !severalTrials(res.Rows):
		return oneRound
	case planned == 1: // an older run, which does not say how many were planned
		return tooFew
	case len(res.Rounds()) < planned:
		return endedEarly
	case planned < compare.Fewest(1):
		return tooFew
	}
	return intervals
}

// A view is a run as sentences see it.
type view struct {
	res      *result.Run
	evidence evidence
	ways     []way // in the order of the tables
}

// A way is a strategy under a load, with all its rounds.
type way struct {
	name    string // the strategy
	load    string // its mix, workload and rate: "5x5"
	rounds  []result.Row
	middle  result.Row // each number is the median of the rounds
	problem string     // why it must not be judged, or empty
}

func look(res *result.Run) view {
	v := view{res: res, evidence: weigh(res)}
	groups := lines(res)
	if res.Planned() == 1 {
		groups = res.Same(res.Rows) // the trials of an older run together
	}
	for _, rows := range groups {
		r := rows[0]
		w := way{name: clean(r.Strategy), load: clean(strings.TrimPrefix(r.Name(), r.Strategy+" ")), rounds: rows, middle: r,
			problem: firstProblem(rows)}
		if len(rows) > 1 {
			w.middle = medianRow(rows)
		}
		v.ways = append(v.ways, w)
	}
	return v
}

// fit are the ways that may be judged.
func (v view) fit() []way {
	return slices.DeleteFunc(slices.Clone(v.ways), func(w way) bool { return w.problem != "" })
}

// embedded reports whether the numbers are not Redis's.
func (v view) embedded() bool { return v.res.Manifest.Backend == "embedded" }

// open reports whether orders fell due at a rate that was fixed beforehand.
func (v view) open() bool {
	return slices.ContainsFunc(v.res.Rows, func(r result.Row) bool { return r.Open != nil })
}

// when stands before remarks about numbers that are no more than what was seen, with a space behind it. It is empty where
// the numbers stand for more: medians of all rounds.
func (v view) when() string {
	if v.embedded() {
		return "On the embedded server (not Redis) "
	}
	switch n := len(v.res.Rounds()); {
	case v.evidence == oneRound:
		return "In this one round "
	case v.evidence == endedEarly && n == 0:
		return "In a run that ended in its first round "
	case v.evidence == endedEarly:
		return fmt.Sprintf("In %d of %d rounds ", n, v.res.Planned())
	case v.evidence == tooFew:
		return "In too few rounds for an interval "
	}
	return ""
}

// verb is one of two forms of a verb: of what was seen, and of what stands for more.
func (v view) verb(seen, known string) string {
	if v.when() == "" {
		return known
	}
	return seen
}

// undecidable says why nothing can be said about which way is faster, or nothing.
func (v view) undecidable() string {
	switch {
	case v.embedded():
		return "The embedded server is not Redis: its numbers do not say which way is faster there."
	case v.evidence == endedEarly:
		return fmt.Sprintf("The run ended after %d of %d rounds: which way is faster is not decided.", len(v.res.Rounds()),
			v.res.Planned())
	case v.evidence == tooFew:
		return fmt.Sprintf("So few rounds give no interval, which takes %d: which way is faster is not decided.", compare.Fewest(1))
	}
	return ""
}

// wrong names the ways that failed their audit, or is empty.
func (v view) wrong() string {
	var names []string
	failed, rounds := 0, 0
	for _, w := range v.ways {
		if n := auditsFailed(w.rounds); n > 0 {
			names = append(names, w.name+" "+w.load)
			failed, rounds = failed+n, rounds+len(w.rounds)
		}
	}
	if len(names) == 0 {
		return ""
	}
	in := ""
	if rounds > len(names) {
		in = fmt.Sprintf(" in %d of %s", failed, count(int64(rounds), "row"))
	}
	return fmt.Sprintf("The audit of %s failed%s: items or money went wrong, so speed counts for nothing.",
		listing(names), in)
}

// unjudged says which ways must not be judged for another reason, or is empty.
func (v view) unjudged() string {
	var names []string
	why := ""
	for _, w := range v.ways {
		if w.problem != "" && auditsFailed(w.rounds) == 0 {
			names, why = append(names, w.name+" "+w.load), w.problem
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("Not judged is %s: it %s.", names[0], why)
	}
	return fmt.Sprintf("Not judged are %s: they are incomplete or were not audited.", listing(names))
}

// doubts are what a line has to say before any number.
func (v view) doubts() []string { return some(v.wrong(), v.unjudged()) }

// A trait is a number of a row; NaN where it has none.
type trait func(result.Row) float64

func purchases(r result.Row) float64 { return r.PurchasesPerSecond }

// retriesEach is how many retries there are to a purchase; NaN where nothing was bought.
func retriesEach(r result.Row) float64 { return float64(r.Retries) / float64(r.Bought) }

// A rated is a way with the median of one of its numbers.
type rated struct {
	way
	compare.Interval
}

// rate is the numbers of the ways that may be judged and have one, in the order of the tables.
func (v view) rate(of trait) (all []rated) {
	for _, w := range v.fit() {
		if i := over(w.rounds, of); !math.IsNaN(i.Center) {
			all = append(all, rated{w, i})
		}
	}
	return all
}

// heaviest are the ways under one load with a number, from the least to the most: that load under which there are several,
// and of these the one with the most buyers and sellers, at the highest rate.
func (v view) heaviest(of trait) []rated {
	byLoad := map[string][]rated{}
	rows := v.rate(of)
	for _, r := range rows {
		byLoad[r.load] = append(byLoad[r.load], r)
	}
	var best []rated
	for _, r := range rows { // in an order that is always the same
		if these := byLoad[r.load]; best == nil || cmp.Or(cmp.Compare(min(2, len(these)), min(2, len(best))),
			cmp.Compare(r.middle.Buyers, best[0].middle.Buyers), cmp.Compare(r.middle.Sellers, best[0].middle.Sellers),
			cmp.Compare(asked(r), asked(best[0]))) > 0 {
			best = these
		}
	}
	slices.SortStableFunc(best, func(a, b rated) int { return cmp.Compare(a.Center, b.Center) })
	return best
}

// asked is the rate of an open loop, or 0.
func asked(r rated) float64 {
	if r.middle.Open == nil {
		return 0
	}
	return r.middle.Open.Asked
}

// most is the way with the most of a number, under any load; false if none has the number.
func (v view) most(of trait) (rated, bool) {
	all := v.rate(of)
	if len(all) == 0 {
		return rated{}, false
	}
	return slices.MaxFunc(all, func(a, b rated) int { return cmp.Compare(a.Center, b.Center) }), true
}

// apart reports whether the medians of all rounds have intervals that do not overlap.
func (v view) apart(a, b compare.Interval) bool {
	return v.evidence == intervals && sure(a, v.res) && sure(b, v.res) && (a.High < b.Low || b.High < a.Low)
}

// two prints a number with two digits, or as a whole number below a thousand: 0.044, 0.44, 3.2, 32, 365, 20,000.
func two(v float64) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || size >= 1e15:
		return number(v)
	case size >= 999.5:
		unit := math.Pow(10, math.Floor(math.Log10(size))-1)
		return whole(math.Round(v/unit) * unit)
	case size >= 9.95:
		return whole(v)
	case size >= 0.995:
		return fmt.Sprintf("%.1f", v)
	case size >= 0.0995:
		return fmt.Sprintf("%.2f", v)
	}
	return number(v)
}

// multiple prints how many times one number is of another: 1.07, 1.2, 3.4, 18.
func multiple(v float64) string {
	if v > 1 && v < 1.095 {
		return fmt.Sprintf("%.2f", v)
	}
	return two(v)
}

// span is what a time in milliseconds is called: 55 us, 0.44 ms, 20 ms, 6.3 s.
func span(v float64) string {
	switch {
	case v >= 999.5:
		return two(v/1000) + " s"
	case v > 0 && v < 0.0995:
		return two(v*1000) + " us"
	}
	return two(v) + " ms"
}

// fromTo is from the least of some numbers to the most, in words that say each.
func fromTo(least, most float64, say func(float64) string) string {
	low, high := say(least), say(most)
	if low == high {
		return low
	}
	return spared(low, high) + " to " + high
}

// spared is a number with its unit, without the unit if another has the same.
func spared(text, other string) string {
	number, unit, _ := strings.Cut(text, " ")
	if _, same, _ := strings.Cut(other, " "); same == unit {
		return number
	}
	return text
}

// listing lists names: "a", "a and b", "a, b and c", "a, b and 3 others".
func listing(names []string) string {
	if n := len(names); n > mostNamed {
		names = append(slices.Clone(names[:mostNamed-1]), count(int64(n-mostNamed+1), "other"))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// some leaves out what is empty.
func some(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

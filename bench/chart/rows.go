package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// A group is the rows of a run that differ in nothing but their round: figures show their median.
type group struct {
	run      *result.Run
	rows     []result.Row
	strategy string // as it is written
	place    string // its mix, and what else tells it from the rows of its strategy
	problem  string // why its numbers must not be judged, or empty
	look     look
}

// groupsOf are the groups of a run, those of complete rounds if there are any, in the order in which they were asked for.
func groupsOf(run *result.Run) []group {
	rows := run.Rows
	if rounds := run.Rounds(); run.Planned() > 1 && len(rounds) > 0 {
		rows = slices.Concat(rounds...)
	}
	var all []group
	strategies := slices.Clone(run.Manifest.Config.Strategies)
	for _, same := range run.Same(rows) {
		first := same[0]
		i := slices.Index(strategies, first.Strategy)
		if i < 0 {
			i = len(strategies)
			strategies = append(strategies, first.Strategy)
		}
		g := group{run: run, rows: same, strategy: clean(first.Strategy), look: lookOf(i)}
		g.place = strings.TrimSpace(strings.TrimPrefix(clean(first.Name()), g.strategy))
		for _, r := range same {
			if problem := r.Problem(); problem != "" && g.problem == "" {
				g.problem = clean(problem)
			}
		}
		all = append(all, g)
	}
	return all
}

// isSweep reports whether the rows of a run are points of a sweep that was judged: it has figures of its own.
func isSweep(run *result.Run) bool { return run.Sweep != nil }

// name tells the group from all others.
func (g group) name() string { return g.strategy + " " + g.place }

// A value is the median of what the rows of a group say about something.
type value struct {
	center    float64
	low, high float64 // where its 95% interval ends
	sure      bool    // the interval is known, from all rounds that were planned
	n         int     // rows that it is from; 0: none has it
}

// median is a value of the group. Of tells it of a row, and whether the row has it.
func (g group) median(of func(result.Row) (v float64, has bool)) value {
	var all []float64
	for _, r := range g.rows {
		if v, has := of(r); has && sane(v) {
			all = append(all, v)
		}
	}
	return medianOf(all, g.run.Planned())
}

// medianOf is the median of so many rounds.
func medianOf(all []float64, planned int) value {
	if len(all) == 0 {
		return value{}
	}
	i := compare.Median(all)
	return value{center: i.Center, low: i.Low, high: i.High, sure: i.Known() && i.N >= planned, n: i.N}
}

// ends are the numbers that an axis has to reach.
func (v value) ends() []float64 {
	switch {
	case v.n == 0:
		return nil
	case v.sure:
		return []float64{v.low, v.center, v.high}
	}
	return []float64{v.center}
}

// last is the value as one that sorts behind all others if there is none.
func (v value) last() float64 {
	if v.n == 0 {
		return math.Inf(1)
	}
	return v.center
}

// text is the value with its interval: 38.8k (36.1k to 41k).
func (v value) text(say func(float64) string) string {
	switch {
	case v.n == 0:
		return "-"
	case v.sure:
		return fmt.Sprintf("%s (%s to %s)", say(v.center), say(v.low), say(v.high))
	}
	return say(v.center)
}

// perSecond is the purchases a second of a row.
func perSecond(r result.Row) (float64, bool) { return r.PurchasesPerSecond, true }

// places are those of the groups, in order.
func places(all []group) []string {
	var names []string
	for _, g := range all {
		if !slices.Contains(names, g.place) {
			names = append(names, g.place)
		}
	}
	return names
}

// at are the groups of a place.
func at(all []group, place string) []group {
	return slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.place != place })
}

// byPlace are groups with those of a place together.
func byPlace(all []group) (sorted []group) {
	for _, place := range places(all) {
		sorted = append(sorted, at(all, place)...)
	}
	return sorted
}

// sorted are groups by a value, the largest first, those without one last.
func sorted(all []group, of func(group) value) []group {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b group) int {
		va, vb := of(a), of(b)
		return cmp.Or(cmp.Compare(min(vb.n, 1), min(va.n, 1)), cmp.Compare(vb.center, va.center))
	})
	return all
}

// basis says what stands behind the numbers of a figure: "medians of 9 rounds, whiskers: 95% interval".
func basis(run *result.Run) string {
	complete, planned := len(run.Rounds()), run.Planned()
	switch {
	case planned == 1:
		return "one measurement of each, without an interval"
	case complete == 0:
		return "medians of what was measured, without intervals: no round is complete"
	case complete < planned:
		return fmt.Sprintf("medians of %d of %d rounds, without intervals", complete, planned)
	case compare.Median(make([]float64, complete)).Known():
		return fmt.Sprintf("medians of %d rounds with their 95%% intervals", complete)
	}
	return fmt.Sprintf("medians of %d rounds, too few for intervals", complete)
}

// medians says the same of a figure that shows no intervals.
func medians(run *result.Run) string {
	switch complete, planned := len(run.Rounds()), run.Planned(); {
	case planned == 1:
		return "one measurement of each"
	case complete == 0:
		return "medians of what was measured: no round is complete"
	case complete < planned:
		return fmt.Sprintf("medians of %d of %d rounds", complete, planned)
	default:
		return fmt.Sprintf("medians of %d rounds", complete)
	}
}

// state is added to the title of a picture of a run that was not measured to its end, and of one that is not Redis's.
func state(run *result.Run) string {
	var notes []string
	switch run.Status {
	case result.Complete:
	case result.Interrupted:
		notes = append(notes, "interrupted: what was measured until then")
	default:
		notes = append(notes, "incomplete: what was measured until the environment failed")
	}
	if run.Manifest.Backend == "embedded" {
		notes = append(notes, "embedded server: not Redis's numbers")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// longest is how many characters of a name are shown. Those of marketsim are shorter.
const longest = 200

// printable is a text with a question mark for each character that XML or a reader could not do with.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, text)
}

// clean makes a name from a file fit to be drawn.
func clean(text string) string {
	text = printable(strings.TrimSpace(text))
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return text
}

// listed joins texts as a sentence does: "a, b and c".
func listed(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}

// mostSaid is how many rows the text alternative of a figure tells one by one.
const mostSaid = 60

// told are texts as sentences, the first of them if there are very many.
func told(texts []string) string {
	if n := len(texts) - mostSaid; n > 0 {
		texts = append(slices.Clone(texts[:mostSaid]), fmt.Sprintf("%d more are not told here", n))
	}
	return strings.Join(texts, "; ") + "."
}

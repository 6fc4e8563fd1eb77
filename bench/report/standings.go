package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// nearly is how far apart two numbers of one round have to be before they are called different: chance moves the ratio of
// two rows by as much.
const nearly = 1.15

// A runner is a way under a load, with its median purchases/s.
type runner struct {
	name      string
	perSecond float64
}

// A duel says what is known about the purchases/s of one way and another under the same load, and their ratio.
type duel func(a, b string) (result.Compared, float64)

// A standing is what is known about the ways under one load.
type standing struct {
	load       string
	ahead      []string // the fastest, and those that are not known to be slower
	behind     []string // those that are known to be slower than the first of ahead, the slowest last
	next, last float64  // what the first of ahead makes of the purchases/s of the first and the last of behind
	same       bool     // between those ahead there is known to be no difference
	slower     bool     // those behind are known to be slower than each of those ahead
}

type standings []standing

// standings are those of each load under which there are several ways that may be judged.
func (v view) standings() (places standings) {
	byLoad := map[string][]rated{}
	var loads []string
	for _, r := range v.rate(purchases) {
		if r.Center <= 0 || v.leftOut(r) {
			continue
		}
		if byLoad[r.load] == nil {
			loads = append(loads, r.load)
		}
		byLoad[r.load] = append(byLoad[r.load], r)
	}
	for _, load := range loads {
		var runners []runner
		for _, r := range byLoad[load] {
			runners = append(runners, runner{r.name, r.Center})
		}
		if len(runners) > 1 {
			places = append(places, rank(load, runners, v.duel(byLoad[load])))
		}
	}
	return places
}

// leftOut reports whether a comparison was asked for and could not judge a way, because it bought nothing in a round.
func (v view) leftOut(r rated) bool {
	comparisons := v.comparisons()
	judged := runnersOf(comparisons, r.middle.Place())
	return len(comparisons) > 0 && !slices.ContainsFunc(judged, func(o runner) bool { return o.name == r.name })
}

// duel judges by the comparisons of a run that was made to compare, and else by intervals; in one round by the size of
// the difference.
func (v view) duel(ways []rated) duel {
	find := func(name string) rated {
		return ways[slices.IndexFunc(ways, func(w rated) bool { return w.name == name })]
	}
	comparisons := v.comparisons()
	compared := duelOf(comparisons, ways[0].middle.Place())
	return func(a, b string) (result.Compared, float64) {
		x, y := find(a), find(b)
		if len(comparisons) > 0 {
			if verdict, ratio := compared(a, b); !math.IsNaN(ratio) {
				return verdict, ratio
			}
		}
		ratio := x.Center / y.Center
		different := v.apart(x.Interval, y.Interval)
		if v.evidence == oneRound {
			different = max(ratio, 1/ratio) >= nearly
		}
		switch {
		case different && ratio > 1:
			return result.Faster, ratio
		case different:
			return result.Slower, ratio
		}
		return result.Undecided, ratio
	}
}

// comparisons are those of a run that was made to compare, or of the points of a sweep.
func (v view) comparisons() []result.Comparison {
	if v.res.Sweep == nil {
		return v.res.Comparisons
	}
	var all []result.Comparison
	for _, p := range v.res.Sweep.Points {
		all = append(all, p.Comparisons...)
	}
	return all
}

// duelOf are the verdicts of comparisons under a mix. The ratio is NaN where there is none.
func duelOf(all []result.Comparison, mix string) duel {
	return func(a, b string) (result.Compared, float64) {
		for _, c := range all {
			switch {
			case c.Mix != mix || c.Ratio == nil:
			case clean(c.A) == a && clean(c.B) == b:
				return c.Verdict, *c.Ratio
			case clean(c.A) == b && clean(c.B) == a:
				return c.Verdict.Reversed(), 1 / *c.Ratio
			}
		}
		return result.Undecided, math.NaN()
	}
}

// rank finds who is ahead: the way that no other is known to be faster than and that made the most, and whoever is not
// known to be slower than it.
func rank(load string, runners []runner, judge duel) standing {
	runners = slices.Clone(runners)
	slices.SortStableFunc(runners, func(a, b runner) int { return cmp.Compare(b.perSecond, a.perSecond) })
	verdict := func(a, b runner) result.Compared { v, _ := judge(a.name, b.name); return v }
	first := max(0, slices.IndexFunc(runners, func(w runner) bool {
		return !slices.ContainsFunc(runners, func(o runner) bool { return o != w && verdict(o, w) == result.Faster })
	}))
	fastest := runners[first]
	s := standing{load: load, ahead: []string{fastest.name}, same: true, slower: true}
	var behind []runner
	for _, w := range slices.Delete(slices.Clone(runners), first, first+1) {
		switch verdict(fastest, w) {
		case result.Faster:
			behind = append(behind, w)
			s.behind = append(s.behind, w.name)
			continue
		case result.NoDifference:
		default:
			s.same = false
		}
		s.ahead = append(s.ahead, w.name)
	}
	if len(behind) > 0 {
		_, s.next = judge(fastest.name, behind[0].name)
		_, s.last = judge(fastest.name, behind[len(behind)-1].name)
	}
	for _, w := range behind {
		for _, a := range s.ahead {
			v, _ := judge(a, w.name)
			s.slower = s.slower && v == result.Faster
		}
	}
	return s
}

// remarks are about each group of loads under which the same ways are ahead, those with one way ahead first; seen says that
// they are about one round.
func (places standings) remarks(seen bool) []string {
	var won []standings
	var ties []string
	for len(places) > 0 {
		first := places[0]
		alike := func(s standing) bool {
			return slices.Equal(s.ahead, first.ahead) && (len(s.ahead) == 1 || slices.Equal(s.behind, first.behind)) &&
				s.same == first.same && s.slower == first.slower
		}
		var here, others standings
		for _, s := range places {
			if alike(s) {
				here = append(here, s)
			} else {
				others = append(others, s)
			}
		}
		if len(first.ahead) == 1 {
			won = append(won, here)
		} else {
			ties = append(ties, here.tie(seen))
		}
		places = others
	}
	switch len(won) {
	case 0:
		return ties
	case 1:
		return append([]string{won[0].winner(seen)}, ties...)
	}
	return append([]string{winners(won, seen)}, ties...)
}

// winners are the ways that are ahead of all others, each under loads of its own: first the one that is ahead under most.
func winners(won []standings, seen bool) string {
	slices.SortStableFunc(won, func(a, b standings) int { return cmp.Compare(len(b), len(a)) })
	what := " is the fastest at "
	if seen {
		what = " made the most purchases/s at "
	}
	var parts []string
	for _, places := range won {
		parts = append(parts, places[0].ahead[0]+what+places.loads())
		what = " at "
	}
	return strings.Join(parts, ", ")
}

// tie is about loads under which several ways are ahead.
func (places standings) tie(seen bool) string {
	s, at := places[0], places.loads()
	rest := ""
	if len(s.behind) > 0 {
		rest = fmt.Sprintf(", and %s %s slower", listing(s.behind), agree(len(s.behind), "is", "are"))
		if !s.slower {
			rest += " than " + s.ahead[0]
		}
	}
	switch {
	case seen && rest != "":
		return fmt.Sprintf("%s made about the same purchases/s at %s, and %s fewer", listing(s.ahead), at, listing(s.behind))
	case seen:
		return fmt.Sprintf("%s made about the same purchases/s at %s", listing(s.ahead), at)
	case s.same:
		return fmt.Sprintf("between %s there is no difference at %s%s", listing(s.ahead), at, rest)
	case len(s.ahead) == 2 && len(s.behind) == 0:
		return fmt.Sprintf("whether %s or %s is faster at %s is not decided", s.ahead[0], s.ahead[1], at)
	}
	return fmt.Sprintf("whether %s is the fastest at %s is not decided%s", or(s.ahead), at, rest)
}

// winner is about loads under which one way is ahead of all others.
func (places standings) winner(seen bool) string {
	s, at := places[0], places.loads()
	least, most, twoWays := s.next, s.next, true
	for _, p := range places {
		least, most = min(least, p.next), max(most, p.next)
		twoWays = twoWays && slices.Equal(p.behind, s.behind) && len(p.behind) == 1
	}
	times := fromTo(least, most, multiple) + " times"
	switch {
	case twoWays && seen:
		return fmt.Sprintf("%s made %s the purchases/s of %s at %s", s.ahead[0], times, s.behind[0], at)
	case twoWays:
		return fmt.Sprintf("%s is faster than %s at %s: %s the purchases/s", s.ahead[0], s.behind[0], at, times)
	}
	begin, what := fmt.Sprintf("%s is the fastest at %s", s.ahead[0], at), "the purchases/s"
	if seen {
		begin, what = fmt.Sprintf("%s made the most purchases/s at %s", s.ahead[0], at), "those"
	}
	if len(places) > 1 {
		return fmt.Sprintf("%s: %s %s of the next", begin, times, what)
	}
	return fmt.Sprintf("%s: %s %s of %s and %s times those of %s", begin, times, what, s.behind[0], multiple(s.last),
		s.behind[len(s.behind)-1])
}

// loads names them, or says how many there are.
func (places standings) loads() string {
	var names []string
	for _, s := range places {
		names = append(names, s.load)
	}
	if len(names) > mostNamed {
		return count(int64(len(names)), "load")
	}
	return listing(names)
}

// or is listing with another word between the last two.
func or(names []string) string {
	text := listing(names)
	if i := strings.LastIndex(text, " and "); i >= 0 {
		text = text[:i] + " or " + text[i+len(" and "):]
	}
	return text
}

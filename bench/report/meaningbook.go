package report

import (
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// claimsMeaning says which claims do not hold, and which are open.
func claimsMeaning(claims []result.Claim) string {
	var yes, no, undecided, unjudged []string
	oneRound := false
	for _, c := range claims {
		id := fmt.Sprint(c.ID)
		switch {
		case c.Holds != nil && *c.Holds:
			yes = append(yes, id)
		case c.Holds != nil:
			no = append(no, id)
		case c.Verdict == result.NotDecided:
			undecided = append(undecided, id)
		default:
			unjudged = append(unjudged, id)
		}
		oneRound = oneRound || c.Verdict == result.OneTrial
	}
	var said []string
	switch {
	case len(yes)+len(no) == 0:
		said = append(said, "Nothing that the book says is decided here.")
	case len(no) == 0:
		said = append(said, "What the book says and could be judged holds here.")
	case len(yes) == 0:
		said = append(said, "Nothing that the book says and could be judged holds here.")
	default:
		said = append(said, fmt.Sprintf("What the book says holds here, but for %s.", claimIDs(no)))
	}
	if len(undecided) > 0 && len(yes)+len(no) > 0 {
		said = append(said, fmt.Sprintf("Not decided: %s.", claimIDs(undecided)))
	}
	if len(unjudged) > 0 && len(yes)+len(no) > 0 {
		said = append(said, fmt.Sprintf("Not judged: %s.", claimIDs(unjudged)))
	}
	if oneRound {
		said = append(said, "One round was measured, and another may say otherwise.")
	}
	return brief(said...)
}

// claimIDs names claims: "claim 4", "claims 4, 7 and 9".
func claimIDs(ids []string) string {
	last := len(ids) - 1
	if last == 0 {
		return "claim " + ids[0]
	}
	return "claims " + strings.Join(ids[:last], ", ") + " and " + ids[last]
}

// bookMeaning compares the effect that a table of the book shows under its heaviest load with the one that was measured:
// how much more the last of its strategies buys than the others or, if it is the only one, how its retries grow.
func bookMeaning(published []reference.Row, v view) string {
	if len(published) == 0 {
		return "The book has no row for this table."
	}
	first, last := published[0], published[len(published)-1]
	doubts := some(v.wrong())
	if why := v.undecidable(); why != "" {
		return brief(append(doubts, why)...)
	}
	var others []reference.Row
	for _, row := range published {
		if row.Mix() == last.Mix() && row.Locking != last.Locking {
			others = append(others, row)
		}
	}
	for _, row := range append(others, first, last) {
		if _, measured := v.measuredAs(row); !measured {
			return brief(append(doubts, fmt.Sprintf("Nothing is compared with the book: %s was not measured at %s, or may not be judged.",
				row.Locking, row.Mix()))...)
		}
	}
	if len(others) == 0 {
		return v.say(doubts, bookGrowth(first, last, v))
	}
	return v.say(doubts, bookRatios(last, others, v)...)
}

// measuredAs is the way that the book's row is about, if it may be judged.
func (v view) measuredAs(row reference.Row) (rated, bool) {
	for _, w := range v.rate(purchases) {
		if w.name == row.Locking && w.load == row.Mix() && w.Center > 0 {
			return w, true
		}
	}
	return rated{}, false
}

// bookGrowth says what becomes of the retries between the lightest load of a table and its heaviest.
func bookGrowth(light, heavy reference.Row, v view) string {
	a, _ := v.measuredAs(light)
	b, _ := v.measuredAs(heavy)
	few, many := over(a.rounds, retriesEach), over(b.rounds, retriesEach)
	if v.evidence == intervals && !v.apart(few, many) {
		return fmt.Sprintf("whether retries grow from %s to %s with %s is not decided", light.Mix(),
			heavy.Mix(), heavy.Locking)
	}
	return fmt.Sprintf("%s %s %s retries a purchase at %s and %s at %s (in the book %s and %s)", heavy.Locking,
		v.verb("took", "takes"), two(few.Center), light.Mix(), two(many.Center), heavy.Mix(),
		quotientWords(light.Retries, light.Bought), quotientWords(heavy.Retries, heavy.Bought))
}

// bookRatios says how much more one of the book's strategies buys than others under the same load.
func bookRatios(of reference.Row, others []reference.Row, v view) (said []string) {
	w, _ := v.measuredAs(of)
	ways := []rated{w}
	for _, row := range others {
		o, _ := v.measuredAs(row)
		ways = append(ways, o)
	}
	judge := v.duel(ways)
	var here, book, open []string
	for i, o := range ways[1:] {
		verdict, ratio := judge(w.name, o.name)
		if verdict == result.Undecided || verdict == result.NoDifference {
			open = append(open, o.name)
			continue
		}
		here = append(here, fmt.Sprintf("%s times as much as %s", multiple(ratio), o.name))
		book = append(book, quotientWords(of.Bought, others[i].Bought))
	}
	if len(here) > 0 {
		said = append(said, fmt.Sprintf("%s %s %s at %s (in the book %s times)", w.name, v.verb("bought", "buys"),
			strings.Join(here, " and "), w.load, strings.Join(book, " and ")))
	}
	switch {
	case len(open) == 0:
	case v.evidence == oneRound:
		said = append(said, fmt.Sprintf("%s and %s bought about the same at %s", w.name, listing(open), w.load))
	default:
		said = append(said, fmt.Sprintf("whether %s buys more than %s at %s is not decided", w.name, or(open), w.load))
	}
	return said
}

// quotientWords divides two printed numbers: "2.96", or over an upper bound "more than 268".
func quotientWords(a, b reference.Value) string {
	switch {
	case b.Number == 0 || a.Below && b.Below:
		return "an unknown number of"
	case b.Below:
		return "more than " + two(a.Number/b.Number)
	case a.Below:
		return "less than " + two(a.Number/b.Number)
	}
	return two(a.Number / b.Number)
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// rowsMeaning says which way is how fast, and how often purchases were tried again.
func rowsMeaning(v view) string {
	switch {
	case len(v.fit()) == 0:
		return brief(append(v.doubts(), "There is no other row.")...)
	case v.open():
		return v.say(append(v.doubts(), "Purchases/s are what was asked for: the open loop says how far each way goes."), v.retried())
	}
	doubts, remarks := v.doubts(), v.speed()
	if len(v.comparisons()) > 0 {
		remarks = v.rates() // who is faster, the comparison says
	}
	if why := v.undecidable(); why != "" {
		doubts, remarks = append(doubts, why), nil
	}
	return v.say(doubts, append(remarks, v.retried())...)
}

// speed says what is known about the purchases/s of the ways.
func (v view) speed() []string {
	if places := v.standings(); len(places) > 0 {
		return places.remarks(v.when() != "")
	}
	fastest, found := v.most(purchases)
	if !found || fastest.Center <= 0 {
		return []string{"nothing was bought"}
	}
	w := fastest.way
	return []string{
		fmt.Sprintf("%s %s %s purchases/s at %s, each after %s on average", w.name, v.verb("made", "makes"), two(fastest.Center),
			w.load, span(w.middle.WaitMS.Mean)),
		"there is no other way to compare it with",
	}
}

// rates says how many purchases/s the slowest way and the fastest make under one load.
func (v view) rates() []string {
	ways := slices.DeleteFunc(v.heaviest(purchases), v.leftOut)
	if len(ways) == 0 {
		return []string{"no way bought something in each round, so none is compared"}
	}
	least, most := ways[0], ways[len(ways)-1]
	if verdict, _ := v.duel(ways)(most.name, least.name); len(ways) == 1 || verdict != result.Faster {
		return []string{fmt.Sprintf("%s purchases/s %s made at %s", fromTo(least.Center, most.Center, two), v.verb("were", "are"),
			least.load)}
	}
	return []string{fmt.Sprintf("%s %s %s purchases/s at %s, and %s %s", most.name, v.verb("made", "makes"), two(most.Center),
		most.load, least.name, two(least.Center))}
}

// fewRetries is up to how many retries a purchase they are not worth a remark.
const fewRetries = 0.1

// retried names the way with the most retries, if there are any to speak of.
func (v view) retried() string {
	w, found := v.most(retriesEach)
	if !found || w.Center < fewRetries {
		return ""
	}
	return fmt.Sprintf("%s %s %s retries a purchase at %s", w.name, v.verb("took", "takes"), two(w.Center), w.load)
}

// comparisonMeaning says who is ahead under each mix, and first what could not be judged.
func comparisonMeaning(all []result.Comparison) string {
	var mixes, sentences, aside []string
	if text, audit := notCompared(all); audit {
		sentences = append(sentences, text)
	} else {
		aside = some(text)
	}
	names := map[string]bool{}
	for _, c := range all {
		names[clean(c.A)], names[clean(c.B)] = true, true
		if !slices.Contains(mixes, c.Mix) {
			mixes = append(mixes, c.Mix)
		}
	}
	if i := slices.IndexFunc(all, func(c result.Comparison) bool { return c.Ratio != nil && c.Reason != "" }); i >= 0 {
		return brief(append(append(sentences, fmt.Sprintf("Nothing is decided: %s.", clean(all[i].Reason))), aside...)...)
	}
	var places standings
	for _, mix := range mixes {
		if runners := runnersOf(all, mix); len(runners) > 1 {
			places = append(places, rank(clean(mix), runners, duelOf(all, mix)))
		}
	}
	return brief(append([]string{say(brief(sentences...), "", names, places.remarks(false)...)}, aside...)...)
}

// notCompared names a way whose pairs have no ratio, one that failed its audit before others, and says whether it is such a
// one. It is empty where all pairs have a ratio.
func notCompared(all []result.Comparison) (text string, audit bool) {
	var names, why []string
	for _, c := range all {
		name := c.A
		if strings.HasPrefix(c.Reason, c.B+" ") {
			name = c.B
		}
		if c.Ratio != nil || slices.Contains(names, clean(name)+" "+clean(c.Mix)) {
			continue
		}
		names = append(names, clean(name)+" "+clean(c.Mix))
		why = append(why, clean(strings.TrimPrefix(c.Reason, name+" ")))
	}
	if len(names) == 0 {
		return "", false
	}
	first := slices.IndexFunc(why, func(s string) bool { return strings.Contains(s, "audit") })
	audit = first >= 0
	first = max(0, first)
	text = fmt.Sprintf("%s %s.", names[first], why[first])
	if others := len(names) - 1; others > 0 {
		text += fmt.Sprintf(" %s not compared either.", agree(others, "Another is", fmt.Sprintf("%d others are", others)))
	}
	return text, audit
}

// runnersOf are the ways of comparisons that have a ratio under a mix.
func runnersOf(all []result.Comparison, mix string) (runners []runner) {
	for _, c := range all {
		if c.Mix != mix || c.Ratio == nil {
			continue
		}
		for _, r := range []runner{{clean(c.A), c.PerSecondA}, {clean(c.B), c.PerSecondB}} {
			if !slices.ContainsFunc(runners, func(o runner) bool { return o.name == r.name }) {
				runners = append(runners, r)
			}
		}
	}
	return runners
}

// runsMeaning says what is known about the rows of two runs.
func runsMeaning(rows []result.Comparison) string {
	names := map[result.Compared][]string{}
	for _, c := range rows {
		name := clean(c.A) + " " + clean(c.Mix)
		switch c.Verdict {
		case result.Faster:
			name += " (" + multiple(*c.Ratio) + " times)"
		case result.Slower:
			name += " (" + two(*c.Ratio) + " times)"
		}
		names[c.Verdict] = append(names[c.Verdict], name)
	}
	var said []string
	for _, part := range []struct {
		verdict result.Compared
		begin   string
	}{
		{result.Faster, "Faster in the new run"}, {result.Slower, "Slower in the new run"},
		{result.NoDifference, "No different"}, {result.Undecided, "Not decided"},
	} {
		if len(names[part.verdict]) > 0 {
			said = append(said, fmt.Sprintf("%s: %s.", part.begin, listing(names[part.verdict])))
		}
	}
	return brief(said...)
}

// differMeaning says what two runs differ in.
func differMeaning(runs compare.Runs) string {
	var what []string
	for _, d := range runs.Differ {
		what = append(what, clean(d.What))
	}
	return fmt.Sprintf("What is faster or slower below may be due to the %s, and not to what was changed.", listing(what))
}

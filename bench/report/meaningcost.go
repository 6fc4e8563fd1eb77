package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// nothingJudged is the line below a table that has no row which may be judged.
const nothingJudged = "No row of this table may be judged: none is complete and passed its audit."

// costMeaning says what a purchase takes of the server, and how often it asks.
func costMeaning(v view) string {
	if len(v.fit()) == 0 {
		return nothingJudged
	}
	cpu, at := v.between(serverTime, microseconds, "a purchase "+v.verb("cost", "costs")+" the server", "")
	subject := "it "
	if cpu == "" {
		subject = "a purchase "
	}
	trips, _ := v.between(roundTrips, number2("round trip", "round trips"), subject+v.verb("took", "takes"), at)
	if cpu == "" && trips == "" {
		return "What a purchase costs was not recorded, or nothing was bought."
	}
	return v.say(nil, cpu, trips, v.inVain())
}

// microseconds prints a time in microseconds with its unit.
func microseconds(us float64) string {
	if us < 999.5 {
		return two(us) + " us"
	}
	return span(us / 1000)
}

// serverTime is the server's CPU time for a purchase, in microseconds.
func serverTime(r result.Row) float64 {
	if r.Cost == nil || r.Cost.ServerUS == nil {
		return math.NaN()
	}
	return *r.Cost.ServerUS
}

// roundTrips is how many a purchase took. None has zero: nobody could count them then.
func roundTrips(r result.Row) float64 {
	if r.Bought == 0 || r.RoundTripsPerPurchase == 0 {
		return math.NaN()
	}
	return r.RoundTripsPerPurchase
}

// vain is the part of a purchase's round trips that changed nothing.
func vain(r result.Row) float64 {
	if r.Cost == nil || r.Cost.Aborted == nil {
		return math.NaN()
	}
	return r.Cost.Aborted.RoundTrips / r.Cost.Market.RoundTrips
}

// mostVain is from which part of the round trips on they are worth a sentence.
const mostVain = 0.2

// inVain names the way that wastes the largest part of its round trips.
func (v view) inVain() string {
	w, found := v.most(vain)
	if !found || w.Center < mostVain || w.Center > 1 {
		return ""
	}
	return fmt.Sprintf("%s of the round trips of %s %s in vain at %s", portion(w.Center), w.name, v.verb("were", "are"), w.load)
}

// between says the least and the most of a number under one load, where they are known to differ, after a subject and a
// verb. It returns the load, too, and leaves out one that was named before.
func (v view) between(of trait, say func(float64) string, begin, before string) (remark, load string) {
	ways := v.heaviest(of)
	if len(ways) == 0 {
		return "", before
	}
	least, most := ways[0], ways[len(ways)-1]
	low, high, spread := say(least.Center), say(most.Center), fromTo(least.Center, most.Center, say)
	at := " at " + least.load
	if least.load == before {
		at = ""
	}
	switch {
	case len(ways) == 1 && at == "":
		return begin + " " + spread, least.load
	case len(ways) == 1:
		return fmt.Sprintf("%s %s with %s%s", begin, spread, least.name, at), least.load
	case low == high:
		return fmt.Sprintf("%s %s with each way%s", begin, low, at), least.load
	case v.apart(least.Interval, most.Interval), v.evidence == oneRound && most.Center >= nearly*least.Center:
		return fmt.Sprintf("%s %s with %s and %s with %s%s", begin, low, least.name, spared(high, low), most.name, at), least.load
	case v.evidence == oneRound:
		return fmt.Sprintf("%s about the same with each way%s: %s", begin, at, spread), least.load
	}
	return fmt.Sprintf("%s %s%s, and no difference is decided", begin, spread, at), least.load
}

// portion prints a part of a whole without decimals, and never as all or nothing of it if it is not.
func portion(v float64) string {
	switch {
	case v >= 0.995 && v < 1:
		return "over 99%"
	case v > 0 && v < 0.005:
		return "under 1%"
	}
	return wholePercent(v)
}

// number2 prints how many of something there are, with two digits.
func number2(one, several string) func(float64) string {
	return func(n float64) string {
		if text := two(n); text != "1.0" {
			return text + " " + several
		}
		return "1 " + one
	}
}

// detailsMeaning tells of the longest wait, of waiting for locks, and of orders that came too late.
func detailsMeaning(v view) string {
	if len(v.fit()) == 0 {
		return nothingJudged
	}
	var remarks []string
	if w, found := v.most(longestWait); found {
		remarks = append(remarks, fmt.Sprintf("waits reached %s with %s at %s, %s times the average there", span(w.Center), w.name,
			w.load, two(w.Center/w.middle.WaitMS.Mean)))
	}
	if w, found := v.most(tooLate); found && w.Center >= 0.01 {
		remarks = append(remarks, fmt.Sprintf("%s of the orders of %s came too late at %s", portion(w.Center), w.name, w.load))
	}
	if w, found := v.most(lockWait); found && w.Center >= 0.01 && w.Center <= 1 {
		remarks = append(remarks, fmt.Sprintf("%s waited for locks in %s of a purchase's time at %s", w.name,
			portion(w.Center), w.load))
	}
	if len(remarks) == 0 {
		return "Nothing was bought, and so nobody waited."
	}
	return v.say(nil, remarks...)
}

// longestWait is NaN where nothing was bought.
func longestWait(r result.Row) float64 {
	if r.Bought == 0 || r.WaitMS.Mean <= 0 {
		return math.NaN()
	}
	return r.WaitMS.Max
}

// tooLate is the part of orders whose item someone else had bought.
func tooLate(r result.Row) float64 { return float64(r.Gone) / float64(r.Gone+r.Bought) }

// lockWait is the part of a purchase's time in which it waited for locks.
func lockWait(r result.Row) float64 {
	if r.Bought == 0 || r.WaitMS.Mean <= 0 {
		return math.NaN()
	}
	return r.LockWaitMS.Mean / r.WaitMS.Mean
}

// triesMeaning says how many tries a purchase took, and how many would have sufficed for nearly all.
func triesMeaning(v view) string {
	tries := func(of func(*result.Tries) float64) trait {
		return func(r result.Row) float64 {
			if r.Tries == nil {
				return math.NaN()
			}
			return of(r.Tries)
		}
	}
	w, found := v.most(tries(func(t *result.Tries) float64 { return t.Mean }))
	if !found {
		return nothingJudged
	}
	remark := fmt.Sprintf("a purchase with %s %s %s at %s, and 99 of 100 at most %s", w.name, v.verb("took", "takes"),
		number2("try", "tries")(w.Center), w.load, thousands(w.middle.Tries.P99))
	var once []string
	for _, w := range v.rate(tries(func(t *result.Tries) float64 { return float64(t.Max) })) {
		if w.Center <= 1 && !slices.Contains(once, w.name) {
			once = append(once, w.name)
		}
	}
	if len(once) == 0 {
		return v.say(nil, remark)
	}
	return v.say(nil, remark, "one try was enough with "+listing(once))
}

// A share is the largest part of a purchase's time, in words.
type share struct {
	name, part string
	of         float64
}

// timeMeaning names the largest part of each way's time under one load.
func timeMeaning(v view) string {
	ways := v.heaviest(func(r result.Row) float64 {
		if r.TimeMS == nil || r.WaitMS.Mean <= 0 {
			return math.NaN()
		}
		return r.WaitMS.Mean
	})
	if len(ways) == 0 {
		return nothingJudged
	}
	var parts []string
	shares := map[string][]share{}
	for _, w := range slices.Backward(ways) { // the slowest first
		s := largest(w.name, *w.middle.TimeMS)
		if shares[s.part] == nil {
			parts = append(parts, s.part)
		}
		shares[s.part] = append(shares[s.part], s)
	}
	for i, what := range parts {
		var names []string
		least, most := math.Inf(1), 0.0
		for _, s := range shares[what] {
			names, least, most = append(names, s.name), min(least, s.of), max(most, s.of)
		}
		parts[i] = fmt.Sprintf("%s with %s (%s)", what, listing(names), fromTo(least, most, portion))
	}
	parts[0] = fmt.Sprintf("the largest part of a purchase's time at %s %s into %s", ways[0].load, v.verb("went", "goes"), parts[0])
	return v.say(nil, parts...)
}

// largest is the largest part of a way's time.
func largest(name string, t result.Split) share {
	total := t.LockWait + t.LockHold + t.Thrown + t.Rest
	best := share{name: name, part: "its own commands", of: t.Rest / total}
	for _, s := range []share{{name, "waiting for locks", t.LockWait / total}, {name, "holding locks", t.LockHold / total},
		{name, "tries that are thrown away", t.Thrown / total}} {
		if s.of > best.of {
			best = s
		}
	}
	return best
}

// loadMeaning says whether the client was the limit, and how evenly buyers came to buy.
func loadMeaning(v view) string {
	if len(v.fit()) == 0 {
		return nothingJudged
	}
	return v.say(some(v.saturated()), v.fairness())
}

// saturated names the rows whose number is this process's, or is empty.
func (v view) saturated() string {
	var names []string
	for _, w := range v.ways {
		if c := w.middle.Client; c != nil && c.Saturated {
			names = append(names, w.name+" "+w.load)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("In %s the client's machine was the limit, not Redis.", listing(names))
}

// even is up to which ratio of the most to the fewest purchases buyers are said to have bought alike.
const even = 1.1

// fairness tells of the row in which buyers bought least alike.
func (v view) fairness() string {
	apart := func(r result.Row) float64 {
		f := r.Fairness
		switch {
		case f == nil || r.Buyers < 2 || f.Most == 0:
			return math.NaN()
		case f.Fewest == 0:
			return math.MaxFloat32 // more than any number of times
		}
		return float64(f.Most) / float64(f.Fewest)
	}
	w, found := v.most(apart)
	switch {
	case !found:
		return "a single buyer shares with nobody"
	case w.Center == math.MaxFloat32:
		return fmt.Sprintf("a buyer got nothing with %s at %s", w.name, w.load)
	case w.Center <= even:
		return fmt.Sprintf("all buyers bought about the same: with %s at %s the most was %s times the fewest", w.name, w.load,
			multiple(w.Center))
	}
	return fmt.Sprintf("one buyer made %s times the purchases of another with %s at %s", multiple(w.Center), w.name, w.load)
}

// openMeaning says up to which rate each strategy went.
func openMeaning(v view, all [][]result.Row) string {
	slo := v.res.Manifest.Config.SLOMS
	goal := v.verb("reached ", "reaches ")
	if slo > 0 {
		goal = fmt.Sprintf("%s 99%% of waits under %s at ", v.verb("kept", "keeps"), span(slo))
	}
	var remarks []string
	for _, steps := range all {
		if slices.ContainsFunc(steps, func(r result.Row) bool { return r.Problem() != "" }) {
			continue
		}
		rate := "no rate"
		if best, _ := highest(steps, slo); best >= 0 {
			rate = "up to " + two(steps[best].Open.Asked) + "/s"
			if best == len(steps)-1 {
				rate += ", the most that was asked for"
			}
		}
		remarks = append(remarks, clean(closedName(steps[0]))+" "+goal+rate)
		goal = "" // the others the same
	}
	if len(remarks) == 0 {
		return brief(append(v.doubts(), nothingJudged)...)
	}
	return v.say(some(v.wrong()), remarks...)
}

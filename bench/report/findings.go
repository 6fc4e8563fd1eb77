package report

import (
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// inShort begins them in a text.
const inShort = "In short: "

// mostFindings is in how many sentences a whole result is told.
const mostFindings = 3

// Findings says in at most three sentences what a run found, the most important first: what went wrong or else which way
// is fastest, if that is decided; what a purchase costs, or what became of the book's claims; and what the numbers do not
// say. Each sentence ends with a full stop, and holds no control characters. A run without rows has one sentence.
func Findings(res *result.Run) []string {
	v := look(res)
	if len(v.ways) == 0 {
		return []string{"No row was measured."}
	}
	var said []string
	said = append(said, some(v.wrong())...)
	switch {
	case len(v.fit()) == 0:
		return append(said, "There is no row that may be judged.")
	}
	if v.res.Sweep != nil && len(v.res.Sweep.Findings) > 0 {
		for _, text := range v.res.Sweep.Findings {
			said = append(said, clean(text))
		}
	} else {
		said = append(said, v.found()...)
	}
	limits := v.limits()
	return append(said[:min(len(said), mostFindings-1)], limits)
}

// found are sentences about speed and about cost.
func (v view) found() (said []string) {
	switch why := v.undecidable(); {
	case v.open():
		said = append(said, openMeaning(v, v.ladders()))
	case v.embedded(): // limits says it
	case why != "":
		said = append(said, why)
	default:
		said = append(said, v.say(nil, v.speed()...))
	}
	switch {
	case len(v.res.Claims) > 0:
		said = append(said, v.tally())
	case v.rate(serverTime) != nil || v.rate(roundTrips) != nil:
		said = append(said, costMeaning(v))
	}
	return said
}

// tally counts the claims.
func (v view) tally() string {
	var holds, not []string
	for _, c := range v.res.Claims {
		switch {
		case c.Holds != nil && *c.Holds:
			holds = append(holds, fmt.Sprint(c.ID))
		case c.Holds != nil:
			not = append(not, fmt.Sprint(c.ID))
		}
	}
	text := fmt.Sprintf("Of %s of the book %d %s here", count(int64(len(v.res.Claims)), "claim"), len(holds),
		agree(len(holds), "holds", "hold"))
	if len(not) > 0 {
		text += fmt.Sprintf(", and %s %s not", claimIDs(not), agree(len(not), "does", "do"))
	}
	if open := len(v.res.Claims) - len(holds) - len(not); open > 0 {
		text += fmt.Sprintf("; %d %s not decided or not judged", open, agree(open, "is", "are"))
	}
	return text + "."
}

// ladders are the rows of open loops by rising rate.
func (v view) ladders() [][]result.Row {
	rows := slices.DeleteFunc(lines(v.res), func(same []result.Row) bool { return same[0].Open == nil })
	return ladders(rows)
}

// limits says what the numbers do not say: the gravest of it.
func (v view) limits() string {
	m := v.res.Manifest
	switch {
	case v.embedded():
		return "The server was an embedded one and not Redis: which way is fast on Redis the numbers do not say."
	case v.res.Status == result.Interrupted:
		return "The run was interrupted: this is what was measured until then."
	case v.res.Status != result.Complete:
		return "The run is incomplete, because the environment failed: this is what was measured until then."
	case v.saturated() != "":
		return v.saturated()
	case v.evidence == oneRound:
		return "It was measured once, so chance is in every number, and no difference is decided."
	case v.evidence == tooFew:
		return "The rounds are too few for intervals, so no difference is decided."
	case m.Backend == "local" && m.Config.RTTMS > 0:
		return fmt.Sprintf("Clients and server shared one machine of %s; the network between them is a delay of %s ms.",
			count(int64(m.CPUs), "CPU"), number(m.Config.RTTMS))
	case m.Backend == "local":
		return fmt.Sprintf("Clients and server shared one machine of %s without a network between them, which favours ways with "+
			"many round trips.", count(int64(m.CPUs), "CPU"))
	}
	return fmt.Sprintf("It was measured on %s %s from one machine of %s: another load, server or network may give another order.",
		known(m.Server), known(m.ServerVersion), count(int64(m.CPUs), "CPU"))
}

// FaultFindings says in at most three sentences what scenarios found: promises that were broken or else how often there
// was harm; who was never harmed; and what that does not say.
func FaultFindings(res *result.Faults) []string {
	all := played(res.Findings)
	var said []string
	for _, f := range res.Broken() {
		said = append(said, fmt.Sprintf("%s promises %q and broke it in the scenario %s: %s.", clean(f.Subject), clean(f.Broken),
			clean(f.Scenario), f.Verdict))
		break
	}
	switch len(all) {
	case 0:
		said = append(said, "Nothing of it could happen, or it was not tried.")
	case 1:
		said = append(said, aloneMeaning(all[0]))
	default:
		said = append(said, harmMeaning(all)...)
	}
	said = said[:min(len(said), mostFindings-1)]
	switch {
	case res.Manifest.Backend == "embedded":
		return append(said, "The server was an embedded one and not Redis.")
	case res.Status == result.Interrupted, res.Status == result.Incomplete:
		return append(said, fmt.Sprintf("The run ended early: %d of %s were made.", res.Found(),
			count(int64(len(res.Scenarios)*len(res.Subjects)), "finding")))
	}
	if !slices.ContainsFunc(all, func(f result.Finding) bool { return !harmed(f) }) {
		return said
	}
	return append(said, "No harm means that none was seen where each scenario puts its fault, not that none can come.")
}

package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
)

// notes lists what is wrong or strange about the rows. A note that several rows share is given once.
func notes(rows []bench.Row) []string {
	var texts []string
	about := map[string][]string{}
	trials := severalTrials(rows)
	for _, r := range rows {
		name := clean(r.Strategy) + " " + mix(r)
		if trials {
			name += fmt.Sprintf(" trial %d", r.Trial)
		}
		for _, text := range rowNotes(r) {
			if about[text] == nil {
				texts = append(texts, text)
			}
			about[text] = append(about[text], name)
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(about[text], ", ") + ": " + text
	}
	return texts
}

func rowNotes(r bench.Row) []string {
	var texts []string
	if r.Status != bench.Complete {
		texts = append(texts, fmt.Sprintf("%s after %s s", clean(string(r.Status)), seconds(r.Seconds)))
	}
	if r.Chaos != nil {
		texts = append(texts, rough(r))
	}
	for _, w := range r.Warnings {
		texts = append(texts, "warning: "+clean(w))
	}
	for _, p := range r.Audit.Problems {
		texts = append(texts, "audit: "+clean(p))
	}
	if r.Unknown != 0 || r.Audit.Applied != 0 || r.Audit.NotApplied != 0 {
		texts = append(texts, fmt.Sprintf("%s of unknown outcome; the audit of the whole row found %s applied and %s not",
			count(r.Unknown, "operation"), thousands(r.Audit.Applied), thousands(r.Audit.NotApplied)))
	}
	if r.Browsers != 0 {
		texts = append(texts, fmt.Sprintf("%s looked at %s listings in %s each on average: %s",
			count(int64(r.Browsers), "browser"), thousands(r.Browsed), mean(r.BrowseMS), count(r.TornReads, "torn read")))
	}
	if r.LeasesLost != 0 {
		texts = append(texts, count(r.LeasesLost, "lock")+" found lost when released")
	}
	if other := refusals(r.Refused); other != "" {
		texts = append(texts, "refused: "+other)
	}
	return texts
}

// rough says what a rough row went through.
func rough(r bench.Row) string {
	c, verb := r.Chaos, "survived"
	if !r.Audit.Done || !r.Audit.OK {
		verb = "struck by"
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(c.Faults)) {
		kinds = append(kinds, clean(kind)+" "+thousands(c.Faults[kind]))
	}
	text := fmt.Sprintf("%s %s in %s", verb, count(c.Struck(), "fault"), count(int64(c.Rounds), "round"))
	if len(kinds) > 0 {
		text += ": " + strings.Join(kinds, ", ")
	}
	text += fmt.Sprintf("; workers connected anew %s", count(c.Reopened, "time"))
	if c.FreedLocks > 0 {
		text += fmt.Sprintf("; %s that nobody held any more removed between rounds", count(c.FreedLocks, "lock key"))
	}
	return text
}

// refusals lists the reasons that have no column of their own.
func refusals(byReason map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		if n := byReason[reason]; n != 0 && reason != "not_listed" && reason != "contended" {
			parts = append(parts, clean(reason)+" "+thousands(n))
		}
	}
	return strings.Join(parts, ", ")
}

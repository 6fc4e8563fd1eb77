package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// notes lists what is wrong or strange about the rows. A note that several rows share is given once.
func notes(rows []result.Row) []string {
	var texts []string
	about := map[string][]string{}
	trials := severalTrials(rows)
	for _, r := range rows {
		name := clean(r.Name())
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

func severalTrials(rows []result.Row) bool {
	return slices.ContainsFunc(rows, func(r result.Row) bool { return r.Trial > 1 })
}

func rowNotes(r result.Row) []string {
	var texts []string
	if r.Status != result.Complete {
		texts = append(texts, fmt.Sprintf("%s after %s s", clean(string(r.Status)), seconds(r.Seconds)))
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
	if r.FailedReleases != nil && *r.FailedReleases != 0 {
		texts = append(texts, count(*r.FailedReleases, "lock")+" could not be released, and may have kept others waiting")
	}
	if other := refusals(r.Refused); other != "" {
		texts = append(texts, "refused: "+other)
	}
	return texts
}

// mostCommands is how many commands are named of those that took the server longest.
const mostCommands = 5

// commandNotes says in which commands the server spent its time on each purchase.
func commandNotes(lines [][]result.Row) []string {
	var notes []string
	for _, group := range lines {
		r := group[0]
		if r.Cost == nil || len(r.Cost.Commands) == 0 || len(group) > 1 {
			continue
		}
		us := r.Cost.Commands
		names := slices.SortedFunc(maps.Keys(us), func(a, b string) int {
			return cmp.Or(cmp.Compare(us[b], us[a]), cmp.Compare(a, b))
		})
		var parts []string
		for _, name := range names[:min(mostCommands, len(names))] {
			parts = append(parts, clean(name)+" "+number(us[name]))
		}
		notes = append(notes, fmt.Sprintf("%s, server us by command: %s", clean(r.Name()), strings.Join(parts, ", ")))
	}
	return notes
}

// refusals lists the reasons that have no column of their own.
func refusals(byReason map[string]int64) string {
	others := maps.Clone(byReason)
	maps.DeleteFunc(others, func(reason string, n int64) bool {
		return n == 0 || reason == "not_listed" || reason == "contended"
	})
	return counted(others)
}

// counted lists counts by the name of what was counted.
func counted(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, clean(name)+" "+thousands(counts[name]))
	}
	return strings.Join(parts, ", ")
}

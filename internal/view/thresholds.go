package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/compare"
)

// Check is a threshold and how it stands in a sentence: "p99<=5ms is broken by lua 5x5:
// 7.10 ms (6.80 ms to 7.40 ms)".
func Check(c compare.Check) string {
	standing := map[compare.Standing]string{
		compare.Met:        "is met by",
		compare.Broken:     "is broken by",
		compare.NotDecided: "is not decided of",
	}[c.Standing]
	text := fmt.Sprintf("%s %s %s %s", c.Threshold, standing, inWords(c.Strategy), c.Place)

	if !math.IsNaN(c.Measured) {
		text += ": " + checked(c, c.Measured)
	}
	if reach := checkedInterval(c); reach != none {
		text += " (" + reach + ")"
	}
	if c.Reason != "" {
		text += ", because " + inWords(c.Reason)
	}
	return text
}

// checked is a value of what was checked, in its unit, or as a ratio.
func checked(c compare.Check, v float64) string {
	switch {
	case math.IsNaN(v):
		return none
	case c.OfFirst:
		return ratio(v)
	}
	return Number(v, c.Judged().Unit)
}

func checkedInterval(c compare.Check) string {
	if math.IsNaN(c.Low) || math.IsNaN(c.High) {
		return none
	}
	return checked(c, c.Low) + " to " + checked(c, c.High)
}

// unmet says first which thresholds are not decided, then which are broken.
func unmet(checks []compare.Check) (all []string) {
	for _, standing := range []compare.Standing{compare.NotDecided, compare.Broken} {
		part := slices.DeleteFunc(slices.Clone(checks), func(c compare.Check) bool { return c.Standing != standing })
		const most = 3 // in a sentence
		if len(part) == 0 {
			continue
		}
		text := "Threshold " + strings.Join(mapped(part[:min(most, len(part))], Check), "; ")
		if n := len(part) - most; n > 0 {
			text += fmt.Sprintf("; and %d more", n)
		}
		all = append(all, text+".")
	}
	return all
}

// met says that all thresholds are met; nil: there are none, or some are not.
func met(checks []compare.Check) []string {
	if len(checks) == 0 || len(unmet(checks)) > 0 {
		return nil
	}
	var texts []string
	for _, c := range checks {
		if text := c.Threshold.String(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return []string{"Met by each row that is held to it: " + listed(texts) + "."}
}

// thresholdBlocks are what is known about each threshold of each row.
func thresholdBlocks(checks []compare.Check) []Block {
	if len(checks) == 0 {
		return nil
	}

	t := NewTable("threshold", "row", "standing", "measured", "interval", "rounds", "because").Wrapping("because")
	t.names = 2
	for _, c := range checks {
		t.Add(c.Threshold.String(), inWords(c.Strategy)+" "+c.Place, string(c.Standing), checked(c, c.Measured),
			checkedInterval(c), fmt.Sprint(c.Rounds), inWords(c.Reason))
		switch c.Standing {
		case compare.Met:
			t.tone(2, good)
		case compare.Broken:
			t.tone(2, bad)
		}
	}

	note := fmt.Sprintf("Medians of the rounds, or of ratios to the first strategy inside each round, and their "+
		"intervals (at %s, so that all of them hold at once with 95%%). "+
		"met: the whole interval is; broken: nothing of it is.",
		percent(checks[0].Confidence))
	return []Block{{Heading: "Thresholds", Table: t.withoutIdleColumns("", none), Note: []string{note}}}
}

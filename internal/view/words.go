package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// Stands for a number that does not exist, such as retries per purchase where
// nothing was bought.
const none = "-"

// Number writes a number of a unit with about three digits: "1,234", "12.3 ms", "4.5%".
// What is not a number is "-".
func Number(v float64, unit runs.Unit) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case unit == runs.Percent:
		return digits(100*v) + "%"
	case unit == runs.Plain || unit == runs.PerSecond:
		// a heading says of what, and in which time
		return digits(v)
	}
	return digits(v) + " " + string(unit)
}

// digits writes a number with about three digits, never more than a reader
// needs: 0.044, 2.96, 12.3, 1,234. A case ends where rounding would give one digit more, as
// 9.995 would be 10.00. The pattern number knows these forms: Numeric takes a column with
// another one for words.
func digits(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 1e15: // nothing measured is so large, and 10,000 times that would not fit an int64
		return fmt.Sprintf("%.3g", v)
	case size >= 99.95 || v == math.Trunc(v):
		return humanize.Comma(int64(math.Round(v)))
	case v > 0 && v < 0.0005: // would print as 0.000, and it is not 0
		return "<0.001"

	case size < 0.0995:
		return fmt.Sprintf("%.3f", v)
	case size < 9.995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// percent writes a fraction as somebody set it, with two decimals at most: 5%, 98.33%.
func percent(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*10000)/100, 'f', -1, 64) + "%"
}

func seconds(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " s" }

func count[T int | int64](n T, thing string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(int(n), thing, "")
}

func known(s string) string { return cmp.Or(s, "unknown") }

// listed is "a, b and c", of many names the first ones.
func listed(names []string) string {
	const most = 6
	if len(names) > most {
		names = append(slices.Clone(names[:most-1]), fmt.Sprintf("%d more", len(names)-most+1))
	}
	return english.WordSeries(names, "and")
}

// warnings are the words of codes; %s is the value, of several rows the least
// and the largest.
var warnings = map[result.Code]string{
	result.NothingBought:  "nothing was bought",
	result.AllBroke:       "every buyer ran out of coins, which ended the row",
	result.SomeBroke:      "%s buyers ran out of coins",
	result.Clipped:        "%s times are longer than 60 s, and recorded as 60 s",
	result.Unsteady:       "not steady: purchases of the second half over the first are %s, and should be 0.8 to 1.25",
	result.TooFew:         "%s purchases, under 250, are too few to tell about halves and tails",
	result.ShortForTail:   "too short for its tail: waits followed to their end are %s of those within the row",
	result.WarmupUnderway: "%s operations of the warm-up were still under way halfway through the row",
	result.LeftOver: "%s orders that fell due in the warm-up were made in the measured time, " +
		"whose own orders waited behind them",
	result.TimesOff: "the buyers' times add up to %s of what they must be: a defect of marketsim",
	result.WereCut:  "%s operations had not ended when the row was cut off, and are in no wait",
	result.ClientLimit: "the clients used %s of the cores, and the server had time left: " +
		"on a larger machine the clients might buy more",
	result.Busy:       "other processes, or other virtual machines, took %s of this machine's time",
	result.OutOfStock: "the stock ran out: %s of the orders came for an item that was gone; more sellers list more",
	result.NoReply:    "the server gave no reply for %s",
	result.Evicted:    "the server evicted %s keys, perhaps locks among them: that the audit found no harm proves nothing",
	result.KeysStay:   "keys could not be removed: remove them with 'marketsim clean'",
}

// unitOf is that of a code's value, where it is no count and no ratio.
var unitOf = map[result.Code]runs.Unit{
	result.ShortForTail: runs.Percent, result.TimesOff: runs.Percent, result.ClientLimit: runs.Percent,
	result.Busy: runs.Percent, result.OutOfStock: runs.Percent, result.NoReply: runs.Milliseconds,
}

// warned are the words of a code for rows that have it with values from least to most, or
// the code if it is not known.
func warned(code result.Code, least, most float64) string {
	words := cmp.Or(warnings[code], "warning "+string(code))
	value := Number(least, unitOf[code])
	if high := Number(most, unitOf[code]); high != value {
		value += " to " + high
	}
	return strings.Replace(words, "%s", value, 1)
}

func ended(status string) string {
	switch status {
	case stored.Interrupted:
		return "interrupted by the user"
	case stored.Incomplete:
		return "incomplete, because the environment failed"
	}
	return status
}

// audited is the verdict of an audit over rows, at least one: "ok", "FAILED", or both with
// how many rows each has.
func audited(rows []result.Row) Cell {
	counts := map[string]int{}
	for _, r := range rows {
		switch {
		case !r.Audit.Done:
			counts["not audited"]++
		case !r.Audit.OK:
			counts["FAILED"]++
		default:
			counts["ok"]++
		}
	}

	// The worst comes last, which stands first and whose tone it is.
	var all Cell
	for _, verdict := range []Cell{{"ok", good}, {"not audited", plain}, {"FAILED", bad}} {
		n := counts[verdict.Text]
		if n == len(rows) {
			return verdict
		}
		if n > 0 {
			all.Text = strings.TrimSuffix(fmt.Sprintf("%s in %d, %s", verdict.Text, n, all.Text), ", ")
			all.Tone = verdict.Tone
		}
	}
	return all
}

// inWords is a name in words: that of a strategy compared with itself ends in
// "#2", and a third time in "#3".
func inWords(name string) string {
	if !strings.Contains(name, "#") {
		return name // nearly always, and at once: it may be long
	}
	return strings.NewReplacer("#2", ", the same again (A/A)", "#", ", the same again (A/A) no. ").Replace(name)
}

// verdictOf is a comparison's verdict in words, for a sentence: "faster than".
func verdictOf(c compare.Comparison) string {
	switch c.Verdict {
	case compare.Faster, compare.Slower, compare.Higher, compare.Lower:
		return string(c.Verdict) + " than"
	case compare.NoDifference:
		return "no different from"
	}
	if !c.OfPurchases() {
		return "not known to be higher or lower than"
	}
	return "not known to be faster or slower than"
}

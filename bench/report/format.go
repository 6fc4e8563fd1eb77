package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
)

// none stands for a number that does not exist, such as retries per purchase where nothing was bought.
const none = "-"

// thousands prints an integer with separators: 1,234,567.
func thousands(n int64) string { return humanize.Comma(n) }

// whole prints a float as an integer with separators.
func whole(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case math.Abs(v) >= 1e15: // cannot be; and would not fit an integer much above
		return fmt.Sprintf("%.3g", v)
	}
	return thousands(int64(math.Round(v)))
}

// number prints a float with about three digits, never more than a reader needs: 0.044, 2.96, 12.3, 1,234.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case v > 0 && v < 0.0005: // would print as 0.000, and it is not 0
		return "<0.001"
	case size < 0.0995:
		return fmt.Sprintf("%.3f", v)
	case size < 9.995:
		return fmt.Sprintf("%.2f", v)
	case size < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return whole(v)
}

// ms prints a time in milliseconds with its unit, or none when nothing was recorded.
func ms(v float64, recorded bool) string {
	if !recorded {
		return none
	}
	return number(v) + " ms"
}

// milliseconds prints a time in milliseconds that was recorded.
func milliseconds(v float64) string { return ms(v, true) }

// inSeconds prints a time in seconds with its unit.
func inSeconds(v float64) string { return number(v) + " s" }

// wholePercent prints a part of a whole without decimals.
func wholePercent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

// mean prints the mean of a distribution.
func mean(l result.Latency) string { return ms(l.Mean, l != result.Latency{}) }

// seconds prints a duration without needless digits: 5, 0.5, 59.97.
func seconds(v float64) string {
	if math.Abs(v) >= 1e15 {
		return fmt.Sprintf("%.3g", v)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// count prints a number of things: 1 row, 2 rows.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// longest is how many characters of one text are shown. Texts that marketsim writes are shorter.
const longest = 400

// clean makes a text from a file safe to print: a control character could move a terminal's cursor or break a table.
func clean(s string) string {
	s = printable(strings.TrimSpace(s))
	if runes := []rune(s); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return s
}

// printable has a question mark for each control character.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// known is a text of the manifest, or that it is not known.
func known(s string) string {
	if s = clean(s); s != "" {
		return s
	}
	return "unknown"
}

// joined joins what is not empty.
func joined(separator string, texts ...string) string {
	texts = slices.DeleteFunc(texts, func(t string) bool { return t == "" })
	return strings.Join(texts, separator)
}

// agree is the form of a verb that goes with n.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

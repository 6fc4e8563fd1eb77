package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/marketsim/marketsim/bench"
)

// none stands for a number that does not exist, such as retries per purchase where nothing was bought.
const none = "-"

// thousands prints an integer with separators: 1,234,567.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

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

// mean prints the mean of a distribution.
func mean(l bench.Latency) string { return ms(l.Mean, l != bench.Latency{}) }

// over prints a ratio of two counts, or none when there is nothing to divide by.
func over(a, b int64) string {
	if b == 0 {
		return none
	}
	return number(float64(a) / float64(b))
}

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
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimSpace(s))
	if runes := []rune(s); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return s
}

package runs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Threshold is a condition that a row must meet: a metric is at most, or at least, a
// value, or a multiple of that of the first strategy in the same place. Thresholds can be
// compared with ==.
type Threshold struct {
	Metric  string // by the name of the CSV
	AtLeast bool   // >=; else <=
	// In the metric's Unit, shares in percent; with OfFirst a factor.
	Value   float64
	OfFirst bool
}

var thresholdParts = regexp.MustCompile(`^\s*([^<>=\s]+)\s*(<=|>=)\s*([^<>=\s]+(?:\s*\*\s*first)?)\s*$`)

// Limits of a threshold's value: 0, or between these.
const (
	leastValue = 1e-6
	mostValue  = 1e12
)

// ParseThreshold reads a threshold as it is typed: "p99<=5ms", "purchases/s>=0.95*first". Stored
// ones are read by it, too. A value may be 0, a factor may not.
func ParseThreshold(text string) (t Threshold, err error) {
	parts := thresholdParts.FindStringSubmatch(text)
	if parts == nil {
		return t, errors.New("want METRIC<=VALUE or METRIC>=VALUE in quotes, as a shell takes < and > for files: " +
			"type 'p99<=5ms' or 'purchases/s>=0.95*first'")
	}
	m, err := ParseMetric(parts[1])
	if err != nil {
		return t, err
	}

	// The value is one of the metric's own, or a factor of the first strategy's; "first" alone is
	// the factor 1.
	t = Threshold{Metric: m.Name, AtLeast: parts[2] == ">="}
	value, times, isFactor := strings.Cut(parts[3], "*")
	t.OfFirst = isFactor && strings.TrimSpace(times) == "first" || parts[3] == "first"
	switch {
	case parts[3] == "first":
		t.Value = 1
	case t.OfFirst:
		t.Value, err = number(strings.TrimSpace(value))
	default:
		t.Value, err = m.value(parts[3])
	}

	outside := t.Value < leastValue && (t.Value != 0 || t.OfFirst) || t.Value > mostValue
	switch {
	case err != nil && t.OfFirst:
		return t, fmt.Errorf("%q is no factor: type '%s%s0.95*first'", value, m.Short, parts[2])
	case err != nil:
		return t, fmt.Errorf("%q: %s of it is %w: type '%s%s%s'", parts[3], m.Short, err, m.Short, parts[2], m.example())
	case outside:
		return t, fmt.Errorf("%q is out of range: want 0.000001 to 1000000000000", parts[3])
	}
	return t, nil
}

// value reads a value of the metric with its unit, as it is typed and as String writes it. A
// percentage stays one: Limit makes a share of it.
func (m JudgedMetric) value(text string) (float64, error) {
	switch m.Unit {
	case Milliseconds, Microseconds: // any unit of time can be typed
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, errors.New("a time with its unit")
		}
		if m.Unit == Microseconds {
			return float64(d) / 1e3, nil
		}
		return float64(d) / 1e6, nil

	case Percent:
		share, isPercent := strings.CutSuffix(text, "%")
		v, err := number(share)
		if err != nil || !isPercent {
			return 0, errors.New("a percentage")
		}
		return v, nil
	}

	v, err := number(strings.TrimSuffix(text, string(m.Unit)))
	if err != nil {
		return 0, errors.New("a number, such as 500, 2.5k or 1M")
	}
	return v, nil
}

// example is a value as it is typed.
func (m JudgedMetric) example() string {
	switch m.Unit {
	case Milliseconds:
		return "5ms"
	case Microseconds:
		return "20us"
	case Percent:
		return "1%"
	case PerSecond:
		return "2.5k"
	}
	return "3"
}

var plainNumber = regexp.MustCompile(`^[0-9]{1,13}(\.[0-9]{1,9})?[kM]?$`)

// number reads digits, perhaps with thousands or millions behind them.
func number(text string) (float64, error) {
	if !plainNumber.MatchString(text) {
		return 0, errors.New("no number")
	}
	// As an exponent, so that 1.025M is 1025000, and not what 1.025 times a million is rounded to.
	return strconv.ParseFloat(strings.NewReplacer("k", "e3", "M", "e6").Replace(text), 64)
}

// Judged is the metric that it is about.
func (t Threshold) Judged() JudgedMetric {
	m, _ := ParseMetric(t.Metric) // ParseThreshold knows no other
	return m
}

// Limit is the value as rows have it, or the factor.
func (t Threshold) Limit() float64 {
	if !t.OfFirst && t.Judged().Unit == Percent {
		return t.Value / 100
	}
	return t.Value
}

// String is the threshold as it is typed. JSON holds it in this form, so ParseThreshold must
// read it as the same threshold.
func (t Threshold) String() string {
	m := t.Judged()
	text := m.Short + "<="
	if t.AtLeast {
		text = m.Short + ">="
	}
	text += strconv.FormatFloat(t.Value, 'f', -1, 64)

	switch {
	case t.OfFirst:
		text += "*first"
	case m.Unit != PerSecond: // which the metric's name says
		text += string(m.Unit)
	}
	return text
}

// MarshalText makes JSON hold a threshold as it is typed.
func (t Threshold) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *Threshold) UnmarshalText(text []byte) (err error) {
	*t, err = ParseThreshold(string(text))
	return err
}

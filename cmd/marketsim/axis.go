package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

// axisSyntax explains how an axis is written.
const axisSyntax = `An axis is written NAME=VALUES, with values that ascend, separated by commas:

  clients  so many sellers and as many buyers; of a market with hot items, buyers alone
  hot      only so many items circulate: a buyer lists again what it bought, and nobody else sells
  hold     work between the reads and the write of each operation, with its locks held; a script does it before
  rtt      by how much each reply is delayed on its way to a worker, as by a network

hold and rtt take times, of which 0 may be the first. A..B goes on from A to B as the three values before the dots do,
of which A is the last: by their ratio, if it is the same twice, or else by their difference. 1,2,4..64 is 1,2,4,8,16,32,64
and 10,20,30..60 is 10,20,30,40,50,60. After two values A..B goes on by their ratio or by their difference, if only one
of them arrives at B. A range that does not arrive at B exactly is refused.`

// mostValues is how many values an axis has at most.
const mostValues = 1000

// An axisKind is how the values of an axis are written. They count items or clients, or microseconds.
type axisKind struct {
	name    result.AxisName
	example string
	most    int64 // so small that the product of two values is no overflow
	timed   bool
}

// axisKinds are those of all axes, in the order of result.AxisNames.
func axisKinds() []axisKind {
	return []axisKind{
		{name: result.Clients, example: "clients=1,2,4..64", most: bench.MaxWorkers},
		{name: result.Hot, example: "hot=1,10,1000", most: bench.MaxHot},
		{name: result.Hold, example: "hold=0,1ms,10ms", most: bench.MaxHold.Microseconds(), timed: true},
		{name: result.RTT, example: "rtt=0,0.2ms,1ms,5ms", most: bench.MaxRTT.Microseconds(), timed: true},
	}
}

// parseAxes reads the axes of --axis.
func parseAxes(texts []string) ([]result.Axis, error) {
	var all []result.Axis
	for _, text := range texts {
		axis, err := parseAxis(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(a result.Axis) bool { return a.Name == axis.Name }) {
			return nil, usageError{fmt.Errorf("--axis %s is given twice: put its values into one list", axis.Name)}
		}
		all = append(all, axis)
	}
	if len(all) > 2 {
		var given []string
		for _, axis := range all {
			given = append(given, string(axis.Name))
		}
		return nil, usageError{fmt.Errorf("a sweep has at most two axes, and these are %s", english.WordSeries(given, "and"))}
	}
	return all, nil
}

// parseAxis reads an axis such as "clients=1,2,4..64". See axisSyntax.
func parseAxis(text string) (result.Axis, error) {
	refuse := func(format string, args ...any) (result.Axis, error) {
		return result.Axis{}, usageError{fmt.Errorf("--axis %s: %s", quotable(text), fmt.Sprintf(format, args...))}
	}
	name, list, found := strings.Cut(text, "=")
	kinds := axisKinds()
	i := slices.IndexFunc(kinds, func(k axisKind) bool { return string(k.name) == name })
	switch {
	case !found:
		return refuse("want NAME=VALUES, such as %s", kinds[max(i, 0)].example)
	case i < 0:
		var known []string
		for _, k := range kinds {
			known = append(known, string(k.name))
		}
		return refuse("there is no axis %q; known: %s", name, strings.Join(known, ", "))
	case strings.TrimSpace(list) == "":
		return refuse("it has no values; write for example %s", kinds[i].example)
	}
	kind := kinds[i]
	var values []int64
	for element := range strings.SplitSeq(list, ",") {
		more, err := kind.element(strings.TrimSpace(element), values)
		if err != nil {
			return refuse("%v", err)
		}
		values = append(values, more...)
		if len(values) > mostValues {
			return refuse("it has more than %d values", mostValues)
		}
	}
	axis := result.Axis{Name: kind.name}
	for _, v := range values {
		axis.Values = append(axis.Values, kind.stored(v))
	}
	return axis, nil
}

// element is what an element of a list adds to the values before it.
func (k axisKind) element(text string, before []int64) ([]int64, error) {
	from, to, ranged := strings.Cut(text, "..")
	first, err := k.value(from)
	if err != nil {
		return nil, err
	}
	if n := len(before); n > 0 && first <= before[n-1] {
		word := "descend"
		if first == before[n-1] {
			word = "are repeated"
		}
		return nil, fmt.Errorf("its values %s at %s: they must ascend", word, k.text(first))
	}
	if !ranged {
		return []int64{first}, nil
	}
	last, err := k.value(to)
	if err != nil {
		return nil, err
	}
	more, err := k.goOn(append(slices.Clone(before), first), last)
	return append([]int64{first}, more...), err
}

// goOn are the values of a range after the last of those before it, to its end. See axisSyntax.
func (k axisKind) goOn(before []int64, end int64) ([]int64, error) {
	n := len(before)
	from := before[n-1]
	if end <= from {
		return nil, fmt.Errorf("%s..%s descends, or stays where it is", k.text(from), k.text(end))
	}
	var byRatio, byDifference []int64
	if n >= 3 {
		a, b := before[n-3], before[n-2]
		switch {
		case a > 0 && b*b == a*from:
			byRatio = ratios(b, from, end)
		case b-a == from-b:
			byDifference = differences(b, from, end)
		default:
			return nil, fmt.Errorf("%s,%s,%s..%s is ambiguous: the three values before the dots have neither one ratio nor one "+
				"difference", k.text(a), k.text(b), k.text(from), k.text(end))
		}
	} else if n == 2 {
		byRatio, byDifference = ratios(before[0], from, end), differences(before[0], from, end)
	}
	switch r, d := byRatio != nil, byDifference != nil; {
	case n == 1:
		return nil, fmt.Errorf("%s..%s does not say by which steps: put two values before it, as in 1,2,4..64", k.text(from),
			k.text(end))
	case r && d && !slices.Equal(byRatio, byDifference):
		return nil, fmt.Errorf("%s,%s..%s is ambiguous, because the ratio and the difference both arrive at %[3]s: write three "+
			"values before the dots, as in 1,2,4..64", k.text(before[0]), k.text(from), k.text(end))
	case r:
		return byRatio, nil
	case d:
		return byDifference, nil
	}
	return nil, fmt.Errorf("going on from %s does not arrive at %s exactly, or only after more than %d values", k.text(from),
		k.text(end), mostValues)
}

// ratios are the values after a and b by their ratio, to the end; nil: they do not arrive there.
func ratios(a, b, end int64) []int64 {
	if a == 0 {
		return nil
	}
	return steps(b, end, func(v int64) (int64, bool) { return v * b / a, v*b%a == 0 })
}

// differences are the values after a and b by their difference, to the end; nil: they do not arrive there.
func differences(a, b, end int64) []int64 {
	return steps(b, end, func(v int64) (int64, bool) { return v + b - a, true })
}

// steps are the values after one, to the end; nil: they do not arrive there.
func steps(from, end int64, next func(int64) (int64, bool)) (all []int64) {
	for v := from; v < end; {
		following, whole := next(v)
		if !whole || following > end || len(all) == mostValues {
			return nil
		}
		v = following
		all = append(all, v)
	}
	return all
}

var (
	writtenCount = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
	writtenTime  = regexp.MustCompile(`^(0|[0-9]+(\.[0-9]+)?(us|µs|ms|s))$`)
)

// value reads a value.
func (k axisKind) value(text string) (int64, error) {
	if !k.timed {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !writtenCount.MatchString(text) || n > k.most {
			return 0, fmt.Errorf("%q: it takes whole numbers from 1 to %d", text, k.most)
		}
		return n, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || !writtenTime.MatchString(text) || d%time.Microsecond != 0 || d.Microseconds() > k.most {
		return 0, fmt.Errorf("%q: it takes times from 0 to %s, such as 0.2ms", text, k.text(k.most))
	}
	return d.Microseconds(), nil
}

// text is a value as a user writes it.
func (k axisKind) text(v int64) string {
	if k.timed && v > 0 {
		return (time.Duration(v) * time.Microsecond).String()
	}
	return strconv.FormatInt(v, 10)
}

// stored is a value as a result has it: times in milliseconds.
func (k axisKind) stored(v int64) float64 {
	if k.timed {
		return float64(v) / 1000
	}
	return float64(v)
}

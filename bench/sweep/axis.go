package sweep

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// MostValues is how many values an axis has at most.
const MostValues = 1000

// An AxisKind is how the values of an axis are written. They count items or clients, or microseconds.
type AxisKind struct {
	Name    result.AxisName
	Example string // a whole axis, for who writes none
	Most    int64  // the highest value, so small that the product of two is no overflow
	Timed   bool   // values are times, and the highest is in microseconds
}

// ParseAxis reads an axis of one of the kinds, such as "clients=1,2,4..64": values that ascend, and A..B, which goes on from
// A to B as the three values before the dots do, by their ratio if it is the same twice, or else by their difference. After
// two values A..B goes on by their ratio or by their difference, if only one of them arrives at B. An error says what is
// wrong with the text, of which it may repeat a part.
func ParseAxis(text string, kinds []AxisKind) (result.Axis, error) {
	name, list, found := strings.Cut(text, "=")
	i := slices.IndexFunc(kinds, func(k AxisKind) bool { return string(k.Name) == name })
	switch {
	case !found:
		return result.Axis{}, fmt.Errorf("want NAME=VALUES, such as %s", kinds[max(i, 0)].Example)
	case i < 0:
		var known []string
		for _, k := range kinds {
			known = append(known, string(k.Name))
		}
		return result.Axis{}, fmt.Errorf("there is no axis %q; known: %s", name, strings.Join(known, ", "))
	case strings.TrimSpace(list) == "":
		return result.Axis{}, errors.New("it has no values; write for example " + kinds[i].Example)
	}
	kind := kinds[i]
	var values []int64
	for element := range strings.SplitSeq(list, ",") {
		more, err := kind.element(strings.TrimSpace(element), values)
		if err != nil {
			return result.Axis{}, err
		}
		values = append(values, more...)
		if len(values) > MostValues {
			return result.Axis{}, fmt.Errorf("it has more than %d values", MostValues)
		}
	}
	axis := result.Axis{Name: kind.Name}
	for _, v := range values {
		axis.Values = append(axis.Values, kind.stored(v))
	}
	return axis, nil
}

// element is what an element of a list adds to the values before it.
func (k AxisKind) element(text string, before []int64) ([]int64, error) {
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

// goOn are the values of a range after the last of those before it, to its end. See ParseAxis.
func (k AxisKind) goOn(before []int64, end int64) ([]int64, error) {
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
		k.text(end), MostValues)
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
		if !whole || following > end || len(all) == MostValues {
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
func (k AxisKind) value(text string) (int64, error) {
	if !k.Timed {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !writtenCount.MatchString(text) || n > k.Most {
			return 0, fmt.Errorf("%q: it takes whole numbers from 1 to %d", text, k.Most)
		}
		return n, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || !writtenTime.MatchString(text) || d%time.Microsecond != 0 || d.Microseconds() > k.Most {
		return 0, fmt.Errorf("%q: it takes times from 0 to %s, such as 0.2ms", text, k.text(k.Most))
	}
	return d.Microseconds(), nil
}

// text is a value as a user writes it.
func (k AxisKind) text(v int64) string {
	if k.Timed && v > 0 {
		return (time.Duration(v) * time.Microsecond).String()
	}
	return strconv.FormatInt(v, 10)
}

// stored is a value as a result has it: times in milliseconds.
func (k AxisKind) stored(v int64) float64 {
	if k.Timed {
		return float64(v) / 1000
	}
	return float64(v)
}

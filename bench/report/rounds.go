package report

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// SoFar is the table of a run that is under way: the medians of what was measured until now. Nothing is decided
// before the last round.
func SoFar(res *result.Run) *Document {
	meaning := fmt.Sprintf("%d of %d rounds are complete, and nothing is decided before the last.", len(res.Rounds()), res.Planned())
	return &Document{sections: []section{{table: rowTable(res, res.Same(res.Rows), rowsTable), meaning: meaning}}}
}

// lines are the rows that a report draws, those of one strategy, mix and rate together: of a run with rounds the rows
// of the complete ones, unless there is none.
func lines(res *result.Run) [][]result.Row {
	if res.Planned() > 1 {
		if rounds := res.Rounds(); len(rounds) > 0 {
			return res.Same(slices.Concat(rounds...))
		}
		return res.Same(res.Rows)
	}
	var each [][]result.Row
	for _, r := range res.Rows {
		each = append(each, []result.Row{r})
	}
	return each
}

// rounds says how many rounds a run has, or nothing if it has one.
func rounds(res *result.Run) string {
	switch complete, planned := len(res.Rounds()), res.Planned(); {
	case planned == 1:
		return ""
	case complete < planned:
		return fmt.Sprintf("; %d of %d rounds complete", complete, planned)
	default:
		return fmt.Sprintf("; %d rounds", planned)
	}
}

// medians says what the tables of a run with rounds show.
func medians(res *result.Run) string {
	complete := len(res.Rounds())
	switch {
	case res.Planned() == 1:
		return ""
	case complete == 0:
		return "no round is complete: medians of what was measured"
	case complete < res.Planned():
		return fmt.Sprintf("medians of %d of %d rounds, without intervals", complete, res.Planned())
	}
	return fmt.Sprintf("medians of %d rounds; ± is where their 95%% interval ends", complete)
}

// over is the median of a number over rows. It is NaN if one of them has none, as of retries per purchase where
// nothing was bought.
func over(rows []result.Row, of func(result.Row) float64) compare.Interval {
	var values []float64
	for _, r := range rows {
		v := of(r)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return compare.Interval{Center: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
		}
		values = append(values, v)
	}
	return compare.Median(values)
}

// sure reports whether the interval of a median is shown: it is that of all rounds that were planned, because whoever
// stops when an interval looks good has none.
func sure(i compare.Interval, res *result.Run) bool { return i.Known() && i.N == res.Planned() }

// reach says how far the interval reaches from the median: ±3%. There is none of too few rounds.
func reach(i compare.Interval) string {
	switch {
	case !i.Known() || math.IsNaN(i.Center):
		return none
	case i.Center == 0 && i.High > 0:
		return "to " + number(i.High)
	case i.Center == 0:
		return "± 0%"
	}
	return fmt.Sprintf("±%2.0f%%", 100*max(i.High-i.Center, i.Center-i.Low)/i.Center)
}

// medianCell is a column's median over the rows of several rounds, whose median row is middle.
func medianCell(c column, middle row, rows []result.Row) cell {
	res := middle.run
	draw := c.value
	if c.shown != nil {
		draw = c.shown
	}
	if _, ok := float(c.value(row{rows[0], res})); !ok {
		return readable(draw(middle))
	}
	i := over(rows, func(r result.Row) float64 {
		v, ok := float(c.value(row{r, res}))
		if !ok {
			return math.NaN()
		}
		return v
	})
	var text cell
	switch {
	case math.IsNaN(i.Center):
		return cell{text: none}
	case c.shown != nil:
		text = readable(draw(middle))
	default:
		if _, counts := present(c.value(middle)).(int64); counts {
			text = cell{text: whole(i.Center)}
		} else {
			text = readable(i.Center)
		}
	}
	if c.sure && sure(i, res) && text.text != none {
		text.text += " " + reach(i)
	}
	return text
}

// float is a value as a number, if it is one.
func float(value any) (float64, bool) {
	switch v := present(value).(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// medianRow is a row whose every number is the median of that of rows, with the worst of their audits. A number that
// one of them lacks it lacks, too.
func medianRow(rows []result.Row) result.Row {
	var middle result.Row
	values := make([]reflect.Value, len(rows))
	audit := result.Audit{Done: true, OK: true}
	for i, r := range rows {
		values[i] = reflect.ValueOf(r)
		audit.Done, audit.OK = audit.Done && r.Audit.Done, audit.OK && r.Audit.OK
		audit.ItemProblems = max(audit.ItemProblems, r.Audit.ItemProblems)
		audit.MoneyProblems = max(audit.MoneyProblems, r.Audit.MoneyProblems)
	}
	setMedian(reflect.ValueOf(&middle).Elem(), values)
	middle.Audit = audit
	return middle
}

// setMedian sets a value to the median of values of its type, number by number. A text is that of the first; maps stay
// empty, because no table shows one.
func setMedian(to reflect.Value, values []reflect.Value) {
	numbers := make([]float64, 0, len(values))
	each := func(pick func(reflect.Value) reflect.Value) []reflect.Value {
		var all []reflect.Value
		for _, v := range values {
			all = append(all, pick(v))
		}
		return all
	}
	switch to.Kind() {
	case reflect.Int, reflect.Int64:
		for _, v := range values {
			numbers = append(numbers, float64(v.Int()))
		}
		to.SetInt(int64(math.Round(compare.Median(numbers).Center)))
	case reflect.Float64:
		for _, v := range values {
			numbers = append(numbers, v.Float())
		}
		to.SetFloat(compare.Median(numbers).Center)
	case reflect.Bool:
		yes := 0
		for _, v := range values {
			if v.Bool() {
				yes++
			}
		}
		to.SetBool(2*yes > len(values))
	case reflect.String:
		to.SetString(values[0].String())
	case reflect.Struct:
		for i := range to.NumField() {
			setMedian(to.Field(i), each(func(v reflect.Value) reflect.Value { return v.Field(i) }))
		}
	case reflect.Pointer:
		if !slices.ContainsFunc(values, reflect.Value.IsNil) {
			to.Set(reflect.New(to.Type().Elem()))
			setMedian(to.Elem(), each(reflect.Value.Elem))
		}
	case reflect.Slice:
		length := values[0].Len()
		if slices.ContainsFunc(values, func(v reflect.Value) bool { return v.Len() != length }) {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), length, length))
		for i := range length {
			setMedian(to.Index(i), each(func(v reflect.Value) reflect.Value { return v.Index(i) }))
		}
	}
}

// mostNamed is how many strategies and mixes a note names.
const mostNamed = 3

var digits = regexp.MustCompile(`[0-9][0-9.,]*`)

// roundNotes lists what is wrong or strange about the rows of several rounds: notes that differ in nothing but their
// numbers once, with the rows they are about and in how many rounds.
func roundNotes(rows []result.Row) []string {
	type note struct {
		first  string
		differ bool
		names  []string       // of rows
		rounds map[string]int // by name
		last   map[string]int // round, by name
	}
	var all []*note
	known := map[string]*note{}
	for _, r := range rows {
		for _, text := range rowNotes(r) {
			key := digits.ReplaceAllString(text, "0")
			n := known[key]
			if n == nil {
				n = &note{first: text, rounds: map[string]int{}, last: map[string]int{}}
				known[key] = n
				all = append(all, n)
			}
			name := clean(r.Name())
			if n.rounds[name] == 0 {
				n.names = append(n.names, name)
			}
			if n.last[name] != r.Trial {
				n.rounds[name]++
				n.last[name] = r.Trial
			}
			n.differ = n.differ || text != n.first
		}
	}
	var texts []string
	for _, n := range all {
		var about []string
		others := 0
		for i, name := range n.names {
			if i >= mostNamed && len(n.names) > mostNamed+1 {
				others += n.rounds[name]
				continue
			}
			about = append(about, fmt.Sprintf("%s in %s", name, count(int64(n.rounds[name]), "round")))
		}
		if others > 0 {
			about = append(about, fmt.Sprintf("and %d other rows", others))
		}
		text := strings.Join(about, ", ") + ": " + n.first
		if n.differ {
			text += " (the first of them)"
		}
		texts = append(texts, text)
	}
	return texts
}

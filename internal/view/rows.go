package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/metric"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// measured are the groups of a run as tables show them: each with its complete rows
// or, if it has none, the others.
func measured(run *runs.Run) []runs.Group {
	all := run.Groups()
	for i, g := range all {
		complete := slices.DeleteFunc(slices.Clone(g.Rows), func(r result.Row) bool { return r.Status != stored.Complete })
		if len(complete) > 0 {
			all[i].Rows = complete
		}
	}
	return all
}

// median is that of a metric over a group: NaN if a row lacks it, without an interval
// if planned rows are missing.
func median(g runs.Group, m metric.Metric, planned int) compare.Interval {
	values := g.Values(m)
	unknown := compare.Interval{Center: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), N: len(values)}
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return unknown
	}
	i := compare.Median(values)
	if len(values) < planned {
		i.Low, i.High = unknown.Low, unknown.High
	}
	return i
}

// cell is a metric of a group: the median and, if it is a rate or in milliseconds, half
// of its 95% interval in percent.
func cell(g runs.Group, m metric.Metric, planned int) string {
	i := median(g, m, planned)
	text := Number(i.Center, m.Unit)
	if m.Unit != metric.PerSecond && m.Unit != metric.Milliseconds {
		return text
	}
	return text + reach(i)
}

// reach is " ±3%", or nothing where there is no interval.
func reach(i compare.Interval) string {
	if !i.Known() || i.Center == 0 {
		return ""
	}
	return fmt.Sprintf(" ±%.0f%%", 100*(i.High-i.Low)/2/math.Abs(i.Center))
}

// headed are the blocks of a run's tables, in their order, with what stands below each.
var headed = []struct {
	table         metric.Table
	heading, note string
}{
	{metric.Main, "Rows", ""},
	{metric.OpenLoop, "Open loop", "A wait of an open loop begins when the order was due; " +
		"service begins when a buyer took it up. late: done later than --slo after it was due, or not at all. " +
		"left over: due in the warm-up and made in the measured time; counted in purchases/s, not in bought."},
	{metric.Details, "Details", "buyer time: the time of all buyers, divided by purchases. gone: another was first. " +
		"contended: operations given up, listings too. " +
		"p99.9 of fewer than 10,000 purchases is one of the few longest waits. What is 0 in every row is left out."},
	{metric.Cost, "Cost", "Per purchase, failed orders included. server, client: processor time of the market's " +
		"server and of this process. background: renewals, subscriptions and heartbeats."},
	{metric.Machine, "Machine", "Processor time: the market's server as a share of one core, " +
		"the others as shares of all cores."},
}

func rowBlocks(run *runs.Run) (blocks []Block) {
	groups, planned := measured(run), run.Manifest.Config.Trials
	for _, h := range headed {
		metrics := slices.DeleteFunc(metric.All(), func(m metric.Metric) bool { return m.Table != h.table })
		headings := mapped(metrics, func(m metric.Metric) string { return m.Heading })
		t := NewTable(append([]string{"row", "audit"}, headings...)...)
		for _, g := range groups {
			// Only the main table tells of the audit: without drops an empty column.
			row := cells(again(g.Name()), "")
			if h.table == metric.Main {
				row[1] = audited(g.Rows)
			}
			numbers := mapped(metrics, func(m metric.Metric) string { return cell(g, m, planned) })
			t.add(append(row, cells(numbers...)...)...)
		}
		idle, note := []string{none, "", "0", "0%"}, []string{h.note}
		if h.table == metric.Main {
			idle, note = []string{none, ""}, append(rounds(run), notes(run)...)
		}
		t = t.without(idle...)
		if len(t.Headings) > 1 {
			blocks = append(blocks, Block{Heading: h.heading, Table: t, Note: note})
		}
	}
	return blocks
}

func rounds(run *runs.Run) []string {
	planned, complete := run.Manifest.Config.Trials, len(run.CompleteRounds())
	switch {
	case planned <= 1:
		return nil
	case complete < planned:
		return []string{fmt.Sprintf("Medians of what was measured; %d of %d rounds are complete, so there are no intervals.",
			complete, planned)}
	case planned < compare.Fewest(1):
		return []string{fmt.Sprintf("Medians of %d rounds; intervals take %d.", planned, compare.Fewest(1))}
	}
	return []string{fmt.Sprintf("Medians of %d rounds; ± is half of the 95%% interval of the median.", planned)}
}

// A remark is a note on rows: a warning's code with the range of its values, or
// words of its own.
type remark struct {
	code        result.Code
	text        string
	least, most float64
	rows        []string       // names
	times       map[string]int // by name, how many rows it is about
}

type remarks []remark

func (s *remarks) add(row *result.Row, code result.Code, text string, value float64) {
	fresh := remark{code: code, text: text, least: value, most: value, times: map[string]int{}}
	r := oneOf((*[]remark)(s), fresh, func(r remark) bool { return r.code == code && r.text == text })
	r.least, r.most = min(r.least, value), max(r.most, value)
	r.times[row.Name()]++
	if r.times[row.Name()] == 1 {
		r.rows = append(r.rows, row.Name())
	}
}

// notes say what is wrong or strange about the rows of a run, each once with
// the rows that it is about.
func notes(run *runs.Run) (texts []string) {
	var s remarks
	for i := range run.Rows {
		s.row(&run.Rows[i])
	}
	for _, r := range s {
		names := mapped(r.rows, func(row string) string {
			if run.Manifest.Config.Trials <= 1 {
				return again(row)
			}
			return fmt.Sprintf("%s (%d of %d)", again(row), r.times[row], run.Manifest.Config.Trials)
		})
		text := r.text
		if r.code != "" {
			text = strings.TrimSuffix(warned(r.code, r.least, r.most)+": "+r.text, ": ")
		}
		texts = append(texts, strings.Join(names, ", ")+": "+text)
	}
	return texts
}

func (s *remarks) row(r *result.Row) {
	say := func(is bool, text string) {
		if is {
			s.add(r, "", text, 0)
		}
	}
	say(r.Status != stored.Complete, ended(r.Status)+" after "+seconds(r.Seconds))
	for _, p := range r.Audit.Problems {
		say(true, "audit: "+p)
	}
	say(!r.Audit.Done, "the market could not be audited")
	for _, w := range r.Warnings {
		s.add(r, w.Code, w.Text, w.Value)
	}
	a := r.Audit
	say(r.Unknown+a.Applied+a.NotApplied > 0, fmt.Sprintf("%s of unknown outcome; the audit found %d applied and %d not",
		count(r.Unknown, "operation"), a.Applied, a.NotApplied))
	say(r.LeasesLost > 0, "found lost when they were released: "+count(r.LeasesLost, "lock"))
	say(r.FailedReleases > 0, "could not be released, and may have kept others waiting: "+count(r.FailedReleases, "lock"))
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		n, column := r.Refused[reason], reason == "not_listed" || reason == "contended"
		say(n > 0 && !column, fmt.Sprintf("refused because of %s: %s", reason, count(n, "operation")))
	}
}

// failed are the rows that must not be judged, the first problem of each group:
// "fine 5x5 failed its audit".
func failed(run *runs.Run) (texts []string) {
	for _, g := range run.Groups() {
		if problem := g.Problem(); problem != "" {
			texts = append(texts, again(g.Name())+" "+problem)
		}
	}
	return texts
}

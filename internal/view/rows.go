package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
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
func median(g runs.Group, m runs.Metric, planned int) compare.Interval {
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
func cell(g runs.Group, m runs.Metric, planned int) string {
	i := median(g, m, planned)
	text := Number(i.Center, m.Unit)
	if m.Unit != runs.PerSecond && m.Unit != runs.Milliseconds {
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

// A section is one of the tables of a run's rows, with what stands below it.
type section struct {
	table   runs.ReportTable
	heading string
	note    string // empty: the remarks on the rows
}

var sections = []section{
	{table: runs.Main, heading: "Rows"},
	{table: runs.OpenLoop, heading: "Open loop", note: "A wait of an open loop begins when the order was due; " +
		"service begins when a buyer took it up. late: done later than --slo after it was due, or not at all. " +
		"left over: due in the warm-up and made in the measured time; counted in purchases/s, not in bought."},
	{table: runs.Details, heading: "Details", note: "buyer time: the time of all buyers, divided by purchases. " +
		"gone: another was first. contended: operations given up, listings too. " +
		"p99.9 of fewer than 10,000 purchases is one of the few longest waits. What is 0 in every row is left out."},
	{table: runs.Cost, heading: "Cost", note: "Per purchase, failed orders included. " +
		"server, client: processor time of the market's server and of the clients. " +
		"background: renewals, subscriptions and heartbeats."},
	{table: runs.Machine, heading: "Machine", note: "Processor time: the market's server as a share of one core, " +
		"the others as shares of all cores."},
}

// rowBlocks are the sections of a run, each as a table with a note. Left out are columns
// that are empty in every row or, but for the main section, 0 in every row, and sections of
// which no column is left.
func rowBlocks(run *runs.Run) (blocks []Block) {
	for _, s := range sections {
		t := s.rows(run)
		note := []string{s.note}
		if s.table == runs.Main { // which has notes of its own, and keeps columns of 0
			t = t.withoutIdleColumns(none, "")
			note = append(rounds(run), notes(run)...)
		} else {
			t = t.withoutIdleColumns(none, "", "0", "0%")
		}

		if len(t.Headings) > 1 {
			blocks = append(blocks, Block{Heading: s.heading, Table: t, Note: note})
		}
	}
	return blocks
}

// rows is the whole table of a section, a row for each group. Only the main one tells of
// the audit, and that of open loops of the rate that was asked for, beside what was offered.
func (s section) rows(run *runs.Run) *Table {
	metrics := slices.DeleteFunc(runs.Metrics(), func(m runs.Metric) bool { return m.Table != s.table })
	headings := []string{"row", "audit"}
	for _, m := range metrics {
		headings = append(headings, m.Heading)
	}

	// The second column is that of the audit; without one it falls away, being empty.
	if s.table == runs.OpenLoop {
		headings[1] = "asked/s"
	}

	t := NewTable(headings...)
	for _, g := range measured(run) {
		row := cells(inWords(g.Name()), "")
		switch {
		case s.table == runs.Main:
			row[1] = audited(g.Rows)
		case s.table == runs.OpenLoop && g.Rate > 0:
			row[1].Text = Number(g.Rate, runs.PerSecond)
		}
		for _, m := range metrics {
			row = append(row, Cell{Text: cell(g, m, run.Manifest.Config.Trials)})
		}
		t.add(row...)
	}
	return t
}

// rounds says what the numbers of several rounds are.
func rounds(run *runs.Run) []string {
	planned := run.Manifest.Config.Trials
	complete := len(run.CompleteRounds())
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

// add adds a remark on a row: to the one that says the same, if there is one.
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
				return inWords(row)
			}
			return fmt.Sprintf("%s (%d of %d)", inWords(row), r.times[row], run.Manifest.Config.Trials)
		})
		text := r.text
		if r.code != "" {
			text = strings.TrimSuffix(warned(r.code, r.least, r.most)+": "+r.text, ": ")
		}
		texts = append(texts, strings.Join(names, ", ")+": "+text)
	}
	return texts
}

// row adds what is wrong or strange about a row. Rows share a remark whose words are the same,
// numbers included. Values of warnings are kept beside the words, and may differ.
func (s *remarks) row(r *result.Row) {
	a := r.Audit
	say := func(is bool, text string) {
		if is {
			s.add(r, "", text, 0)
		}
	}

	// What makes a row worthless comes first.
	say(r.Status != stored.Complete, ended(r.Status)+" after "+seconds(r.Seconds))
	for _, p := range a.Problems {
		say(true, "audit: "+p)
	}
	say(!a.Done, "the market could not be audited")
	for _, w := range r.Warnings {
		s.add(r, w.Code, w.Text, w.Value)
	}

	say(r.Unknown+a.Applied+a.NotApplied > 0, fmt.Sprintf("%s of unknown outcome; the audit found %d applied and %d not",
		count(r.Unknown, "operation"), a.Applied, a.NotApplied))
	say(r.LeasesLost > 0, "found lost when they were released: "+count(r.LeasesLost, "lock"))
	say(r.FailedReleases > 0,
		"could not be released, and may have kept others waiting: "+count(r.FailedReleases, "lock"))
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		n := r.Refused[reason]
		// These are the columns gone and contended of the details.
		hasColumn := reason == "not_listed" || reason == "contended"
		say(n > 0 && !hasColumn, fmt.Sprintf("refused because of %s: %s", reason, count(n, "operation")))
	}
}

// failed are the rows that must not be judged, the first problem of each group:
// "fine 5x5 failed its audit".
func failed(run *runs.Run) (texts []string) {
	for _, g := range run.Groups() {
		if problem := g.Problem(); problem != "" {
			texts = append(texts, inWords(g.Name())+" "+problem)
		}
	}
	return texts
}

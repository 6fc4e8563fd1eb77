package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/fault"
)

// code is a verdict as a matrix shows it.
func code(v fault.Verdict) string {
	switch v {
	case fault.Safe:
		return "ok"
	case fault.StuckForTTL:
		return "t"
	case fault.StuckForGood:
		return "S"
	case fault.TwoHolders:
		return "2h"
	case fault.ChargedTwice:
		return "2c"
	case fault.CoinsLost:
		return "c-"
	case fault.CoinsMade:
		return "c+"
	case fault.ItemLost:
		return "i-"
	case fault.SoldTwice:
		return "2s"
	case fault.Unavailable:
		return "?"
	case fault.NotApplicable:
		return "."
	}
	return string(v)
}

// legend explains the codes.
func legend() string {
	var parts []string
	for _, v := range worstFirst() {
		parts = append(parts, code(v)+" = "+string(v))
	}
	return strings.Join(parts, "; ") + ". An ! behind it: the lock had promised otherwise."
}

// matrix is all findings at a glance: a row a subject and a column a scenario, in as many tables as the width asks for.
// legend explains the codes.
func matrix(res *fault.Result, legend []string) []section {
	names := len("subject")
	for _, s := range res.Subjects {
		names = max(names, len([]rune(clean(s))))
	}
	codes := map[[2]string]string{}
	for _, f := range res.Findings {
		c := code(f.Verdict)
		if f.Broken != "" {
			c += "!"
		}
		codes[[2]string{f.Scenario, f.Subject}] = c
	}
	var sections []section
	for from := 0; from < len(res.Scenarios); {
		to, width := from, names
		for to < len(res.Scenarios) {
			if width += len(gap) + columnWidth(res, codes, to); width > narrow && to > from {
				break
			}
			to++
		}
		sections = append(sections, part(res, codes, from, to))
		from = to
	}
	if len(sections) > 0 {
		sections[0].title, sections[0].lines = "Matrix", append(legend, sections[0].lines...)
	}
	return sections
}

// columnWidth is how wide a scenario's column is.
func columnWidth(res *fault.Result, codes map[[2]string]string, scenario int) int {
	width := len(strconv.Itoa(scenario + 1))
	for _, s := range res.Subjects {
		width = max(width, len(codes[[2]string{res.Scenarios[scenario].Name, s}]))
	}
	return width
}

// part is the matrix of some of the scenarios.
func part(res *fault.Result, codes map[[2]string]string, from, to int) section {
	t := &table{header: []string{"subject"}, left: 1 + to - from}
	for i := from; i < to; i++ {
		t.header = append(t.header, strconv.Itoa(i+1))
	}
	for _, s := range res.Subjects {
		row := cells(clean(s))
		for _, sc := range res.Scenarios[from:to] {
			c := codes[[2]string{sc.Name, s}]
			row = append(row, cell{text: c})
		}
		t.rows = append(t.rows, row)
	}
	return section{lines: []string{fmt.Sprintf("Scenarios %d to %d:", from+1, to)}, table: t}
}

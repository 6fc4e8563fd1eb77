package page

import (
	"fmt"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// A matrix is the findings of fault scenarios at a glance. Each cell says what it stands for in a code and with a color, and
// opens its story.
type matrix struct {
	ID, After string // After follows it, for who skips it
	Below     bool
	Title     string
	Key       []keyEntry // what the colors mean
	Legend    string     // what the codes mean
	Columns   []matrixColumn
	Lines     []matrixLine
}

type keyEntry struct{ Class, Code, Text string }

type matrixColumn struct{ Name, Title, Section string }

type matrixLine struct {
	Subject string
	Cells   []matrixCell
}

// A matrixCell without Why has no story: nothing was found there.
type matrixCell struct{ Code, Class, Where, Says, Why string }

// The classes of cells, for their colors.
const (
	safe  = "safe"
	slow  = "slow"
	stuck = "stuck"
	harm  = "harm"
)

// class is the color of a verdict: harm to coins and items is worse than waiting for ever, and that worse than waiting.
func class(v result.Verdict) string {
	switch {
	case v.Harm():
		return harm
	case v == result.StuckForGood:
		return stuck
	case v == result.StuckForTTL || v == result.StuckUnbounded:
		return slow
	case v == result.Safe:
		return safe
	}
	return ""
}

func newMatrix(res *result.Faults, id string, below bool) *matrix {
	cells, legend := report.Matrix(res)
	m := &matrix{
		ID: id + "-matrix", After: id + "-after", Below: below, Title: "All findings at a glance", Legend: legend,
		Key: []keyEntry{
			{safe, "ok 0", "nothing was lost, and nobody was kept out"},
			{slow, "ok 1", "others were kept out for a time, such as a lease"},
			{stuck, "ok X", "others never got in while the scenario watched"},
			{harm, "2s 1", "coins or items went wrong"},
		},
	}
	for i, sc := range res.Scenarios {
		m.Columns = append(m.Columns, matrixColumn{Name: sc.Name, Title: sc.Title, Section: fmt.Sprintf("%s-s%d", id, i+1)})
	}
	for i, subject := range res.Subjects {
		line := matrixLine{Subject: subject}
		for j, c := range cells[i] {
			var shown matrixCell
			if c != nil {
				shown = matrixCell{Code: c.Code, Class: class(c.Verdict)}
				if shown.Class != "" {
					shown.Why, shown.Says = c.Why, c.Harm.Text
					if c.KeptOut.Text != "" {
						shown.Says += "; others kept out: " + c.KeptOut.Text
					}
					shown.Where = fmt.Sprintf("%s in %s: %s", subject, res.Scenarios[j].Name, res.Scenarios[j].Title)
				}
			}
			line.Cells = append(line.Cells, shown)
		}
		m.Lines = append(m.Lines, line)
	}
	return m
}

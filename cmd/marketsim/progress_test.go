package main

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func twoRows(t *testing.T) []bench.Config {
	t.Helper()
	spec, err := catalogue.Full().Parse("fine")
	if err != nil {
		t.Fatal(err)
	}
	row := bench.Config{Subject: spec, Mix: bench.Mix{Sellers: 5, Buyers: 1}, Duration: time.Minute}
	return []bench.Config{row, row}
}

func TestProgressLines(t *testing.T) {
	var out transcript
	rows := twoRows(t)
	p := newProgress(&out, false, rows)
	for i, r := range []bench.Row{
		{Strategy: "fine", Status: bench.Complete, Bought: 1200, Listed: 1300, Seconds: 60, PurchasesPerSecond: 20, Audit: bench.Audit{Done: true, OK: true}},
		{Strategy: "fine", Status: bench.Interrupted, Audit: bench.Audit{Done: true, ItemProblems: 2, MoneyProblems: 1}},
	} {
		p.row(rows[i])()
		p.finished(rows[i], r)
	}
	want := "1/2 fine 5x1: 1200 bought and 1300 listed in 60.0 s, 20 purchases/s, audit ok\n" +
		"2/2 fine 5x1: 0 bought and 0 listed in 0.0 s, 0 purchases/s, AUDIT FAILED: 2 items and 1 account wrong, interrupted\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestProgressBar(t *testing.T) {
	var out transcript
	rows := twoRows(t)
	p := newProgress(&out, true, rows)
	end := p.row(rows[0])
	eventually(t, "a bar with the time left", func() bool {
		return strings.Contains(out.String(), "fine 5x1 (row 1 of 2)") && strings.Contains(out.String(), "[0s:")
	})
	end()
	before := out.String()
	p.finished(rows[0], bench.Row{Strategy: "fine", Status: bench.Incomplete})
	line := strings.TrimPrefix(out.String(), before)
	if !strings.HasPrefix(line, "\r") || !strings.HasSuffix(line, "1/2 fine 5x1: 0 bought and 0 listed in 0.0 s, 0 purchases/s, not audited, incomplete\n") {
		t.Errorf("the bar is not replaced by the row's line: %q", line)
	}
}

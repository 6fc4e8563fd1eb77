package main

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func twoRows(t *testing.T) []bench.Config {
	t.Helper()
	spec, err := catalogue.Full().Parse("fine")
	if err != nil {
		t.Fatal(err)
	}
	row := bench.Config{Subject: spec, Mix: result.Mix{Sellers: 5, Buyers: 1}, Duration: time.Minute}
	return []bench.Config{row, row}
}

func TestProgressLines(t *testing.T) {
	var out transcript
	rows := twoRows(t)
	p := newRowProgress(&out, false, rows, 1)
	for i, r := range []result.Row{
		{Strategy: "fine", Status: result.Complete, Bought: 1200, Listed: 1300, Seconds: 60, PurchasesPerSecond: 20, Audit: result.Audit{Done: true, OK: true}},
		{Strategy: "fine", Status: result.Interrupted, Audit: result.Audit{Done: true, ItemProblems: 2, MoneyProblems: 1}},
	} {
		p.row(rows[i])()
		p.finished(rows[i], &result.Run{Rows: []result.Row{r}})
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
	p := newRowProgress(&out, true, rows, 1)
	end := p.row(rows[0])
	eventually(t, "a bar with the time left", func() bool {
		return strings.Contains(out.String(), "fine 5x1 (row 1 of 2), 2m0s left") && !strings.Contains(out.String(), ":")
	})
	end()
	before := out.String()
	p.finished(rows[0], &result.Run{Rows: []result.Row{{Strategy: "fine", Status: result.Incomplete}}})
	line := strings.TrimPrefix(out.String(), before)
	if !strings.HasPrefix(line, "\r") || !strings.HasSuffix(line, "1/2 fine 5x1: 0 bought and 0 listed in 0.0 s, 0 purchases/s, not audited, incomplete\n") {
		t.Errorf("the bar is not replaced by the row's line: %q", line)
	}
}

// TestProgressOfRounds: without a terminal a round is a line, and a row only where its audit failed.
func TestProgressOfRounds(t *testing.T) {
	var out transcript
	rows := append(twoRows(t), twoRows(t)...)
	p := newRowProgress(&out, false, rows, 2)
	p.began = p.began.Add(-3 * time.Minute) // the first row took three times as long as its load
	ok := result.Row{Strategy: "fine", Sellers: 5, Buyers: 1, Trial: 1, Status: result.Complete, Seconds: 60,
		Audit: result.Audit{Done: true, OK: true}}
	bad := ok
	bad.Audit = result.Audit{Done: true, ItemProblems: 1}
	for i, r := range []result.Row{ok, bad, ok, ok} {
		p.finished(rows[i], &result.Run{Rows: []result.Row{r}})
	}
	want := "fine 5x1 in round 1: AUDIT FAILED: 1 item and 0 accounts wrong\n1/2 rounds of 2 rows, about 3m0s left\n" +
		"2/2 rounds of 2 rows, about 0s left\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

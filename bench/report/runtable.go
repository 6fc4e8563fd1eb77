package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
)

// runSection is every row with what it did, and below it what went wrong.
func runSection(res *bench.Result) section {
	s := section{title: "Rows", notes: notes(res.Rows)}
	if len(res.Rows) == 0 {
		s.lines = []string{"No row was measured."}
		return s
	}
	t := rowTable(res.Rows, "listed", "bought", "retries", "retries/\npurchase", "avg wait", "p50", "p99",
		"purchases/s", "audit")
	t.lastLeft = true
	for i, r := range res.Rows {
		recorded := r.WaitMS != bench.Latency{}
		t.rows[i] = append(t.rows[i], cells(
			thousands(r.Listed), thousands(r.Bought), thousands(r.Retries), over(r.Retries, r.Bought),
			mean(r.WaitMS), ms(r.WaitMS.P50, recorded), ms(r.WaitMS.P99, recorded), number(r.PurchasesPerSecond))...)
		t.rows[i] = append(t.rows[i], audit(r.Audit))
	}
	s.table = t
	return s
}

// detailSection is what the purchases and listings cost. It is empty without rows.
func detailSection(res *bench.Result) section {
	if len(res.Rows) == 0 {
		return section{}
	}
	t := rowTable(res.Rows, "gone", "contended", "list\nretries", "list avg", "given up\navg", "lock wait\navg", "polls",
		"round\ntrips/\npurchase", "bought by\neach buyer")
	for i, r := range res.Rows {
		trips := none
		if r.Bought != 0 {
			trips = number(r.RoundTripsPerPurchase)
		}
		t.rows[i] = append(t.rows[i], cells(
			thousands(r.Gone), thousands(r.Contended), thousands(r.ListRetries), mean(r.ListMS), mean(r.GivenUpMS),
			mean(r.LockWaitMS), thousands(r.Polls), trips, spread(r.PerBuyer))...)
	}
	return section{
		title: "Details",
		lines: []string{"gone: someone else was first. given up: time spent on orders that were refused."},
		table: t,
	}
}

// rowTable is a table of rows with the columns that name a row filled in. The trial is among them only when there is
// more than one.
func rowTable(rows []bench.Row, columns ...string) *table {
	t := &table{header: []string{"strategy", "mix"}, left: 2}
	trials := severalTrials(rows)
	if trials {
		t.header = append(t.header, "trial")
	}
	t.header = append(t.header, columns...)
	for _, r := range rows {
		row := cells(clean(r.Strategy), mix(r))
		if trials {
			row = append(row, cell{text: fmt.Sprint(r.Trial)})
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func severalTrials(rows []bench.Row) bool {
	return slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Trial > 1 })
}

func mix(r bench.Row) string { return bench.Mix{Sellers: r.Sellers, Buyers: r.Buyers}.String() }

// audit is the verdict on a row's market in words.
func audit(a bench.Audit) cell {
	switch {
	case !a.Done:
		return cell{"not done", bad}
	case a.OK:
		return cell{"ok", good}
	}
	var wrong []string
	if a.ItemProblems != 0 {
		wrong = append(wrong, count(a.ItemProblems, "item"))
	}
	if a.MoneyProblems != 0 {
		wrong = append(wrong, count(a.MoneyProblems, "account"))
	}
	return cell{joined(" ", strings.Join(wrong, ", "), "wrong"), bad}
}

// spread shows who starves: the fewest and the most purchases that one buyer made.
func spread(perBuyer []int64) string {
	if len(perBuyer) == 0 {
		return none
	}
	least, most := slices.Min(perBuyer), slices.Max(perBuyer)
	if least == most {
		return thousands(least)
	}
	return thousands(least) + "-" + thousands(most)
}

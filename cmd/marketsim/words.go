package main

import (
	"fmt"

	"github.com/marketsim/marketsim/bench"
)

// count is a number of things in words: 1 item, 2 items.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// wrong is what an audit found wrong, in words.
func wrong(a bench.Audit) string {
	return count(a.ItemProblems, "item") + " and " + count(a.MoneyProblems, "account") + " wrong"
}

// verdict is what a row's audit found, and how the row ended if not well.
func verdict(r bench.Row) string {
	text := "audit ok"
	switch {
	case !r.Audit.Done:
		text = "not audited"
	case !r.Audit.OK:
		text = "AUDIT FAILED: " + wrong(r.Audit)
	}
	if r.Status != bench.Complete {
		text += ", " + string(r.Status)
	}
	return text
}

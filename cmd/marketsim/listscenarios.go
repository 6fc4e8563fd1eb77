package main

import (
	"io"

	"github.com/marketsim/marketsim/bench/fault"
)

// listScenarios prints what 'marketsim faults' plays, and which promise of a lock says that it survives.
func listScenarios(w io.Writer) error {
	rows := [][]string{{"scenario", "what happens", "promise that covers it", "needs"}}
	for _, sc := range fault.All() {
		rows = append(rows, []string{sc.Name, sc.Title, orNone(sc.Promise), orNone(sc.Needs)})
	}
	return plainTable(w, rows)
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

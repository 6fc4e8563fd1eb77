package reference

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrTable is returned for a table that the book does not have.
var ErrTable = errors.New("unknown table")

// shown says which ways of locking each table compares. Table 6-2 repeats the rows of 6-1 beside the market-wide
// lock, and 6-3 adds the per-item lock to both.
var shown = []struct {
	table   string
	locking []string
}{
	{"6-1", []string{"watch"}},
	{"6-2", []string{"watch", "coarse"}},
	{"6-3", []string{"watch", "coarse", "fine"}},
}

// Backoff is the name of what is reproduced of M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. It
// prints no table: its numbers are those of its simulator.
const Backoff = "backoff"

// Tables returns the names of the book's tables, in its order.
func Tables() []string {
	names := make([]string, 0, len(shown))
	for _, t := range shown {
		names = append(names, t.table)
	}
	return names
}

// Rows returns the book's rows that the named tables need, each once and in book order. A row that two tables share
// is therefore measured once. Without names it returns all nine.
func Rows(tables ...string) ([]Row, error) {
	if len(tables) == 0 {
		tables = Tables()
	}
	var need []string
	for _, t := range tables {
		locking, err := lockingOf(t)
		if err != nil {
			return nil, err
		}
		need = append(need, locking...)
	}
	rows, err := Published()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r Row) bool {
		return r.Source != Book || !slices.Contains(need, r.Locking)
	}), nil
}

// Table returns the rows that the book shows in a table, in the order in which it shows them: by mix, so that the
// ways of locking stand below one another.
func Table(name string) ([]Row, error) {
	rows, err := Rows(name)
	if err != nil {
		return nil, err
	}
	// Rows come by strategy; a stable sort by load keeps that order within each mix.
	slices.SortStableFunc(rows, func(a, b Row) int {
		if d := a.Listers - b.Listers; d != 0 {
			return d
		}
		return a.Buyers - b.Buyers
	})
	return rows, nil
}

// Find returns the book's row of a strategy under a number of listers and buyers.
func Find(strategy string, listers, buyers int) (Row, bool) {
	rows, err := Published()
	if err != nil {
		return Row{}, false // the tests parse the embedded file: this does not happen
	}
	for _, r := range rows {
		if r.Source == Book && r.Locking == strategy && r.Listers == listers && r.Buyers == buyers {
			return r, true
		}
	}
	return Row{}, false
}

func lockingOf(table string) ([]string, error) {
	for _, t := range shown {
		if t.table == table {
			return t.locking, nil
		}
	}
	return nil, fmt.Errorf("%w %q: the book has %s", ErrTable, table, strings.Join(Tables(), ", "))
}

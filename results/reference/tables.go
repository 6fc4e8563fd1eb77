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

// Tables returns the names of the book's tables, in its order.
func Tables() []string {
	names := make([]string, 0, len(shown))
	for _, t := range shown {
		names = append(names, t.table)
	}
	return names
}

// Rows returns the nine rows of the book's tables, each once and in book order.
func Rows() ([]Row, error) {
	rows, err := Published()
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Source != Book }), err
}

// Table returns the rows that the book shows in a table, in the order in which it shows them: by mix, so that the
// ways of locking stand below one another.
func Table(name string) ([]Row, error) {
	locking, err := lockingOf(name)
	if err != nil {
		return nil, err
	}
	rows, err := Rows()
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return !slices.Contains(locking, r.Locking) })
	// Rows come by strategy; a stable sort by load keeps that order within each mix.
	slices.SortStableFunc(rows, func(a, b Row) int {
		if d := a.Listers - b.Listers; d != 0 {
			return d
		}
		return a.Buyers - b.Buyers
	})
	return rows, nil
}

func lockingOf(table string) ([]string, error) {
	for _, t := range shown {
		if t.table == table {
			return t.locking, nil
		}
	}
	return nil, fmt.Errorf("%w %q: the book has %s", ErrTable, table, strings.Join(Tables(), ", "))
}

// Package reference holds the numbers that others published, to be shown beside the measured ones.
//
// The numbers are data: published.csv, next to this file, says what was printed where, and SOURCES.md who printed it
// and how sure each cell is. This package only reads them. What the numbers are said to show is judged in package
// bench.
package reference

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Book is the Source of the rows of tables 6-1 to 6-3 of Redis in Action.
const Book = "redis-in-action"

// BookSeconds is how long the book's author ran each row, in seconds.
const BookSeconds = 60

//go:embed published.csv
var published string

// columns is the header of published.csv, in its order.
const columns = "source,table,seconds,listers,buyers,locking,listed,bought,retries,wait_ms,confirmed"

// Row is one published row: one way of locking under one number of listers and buyers.
type Row struct {
	Source  string // who published it: Book or another name of SOURCES.md
	Table   string // the table it first stands in ("6-1"), or "-"
	Seconds int    // how long it was measured
	Listers int
	Buyers  int
	Locking string // the name of the strategy in marketsim: watch, coarse or fine

	Listed  Value // items put on the market
	Bought  Value
	Retries Value // of purchases
	WaitMS  Value // mean wait for a purchase, in milliseconds
}

// Value is a printed number.
type Value struct {
	Number float64
	Below  bool // printed as <Number: an upper bound, not the number
}

// Tables returns the names of the book's tables, in its order.
func Tables() []string { return []string{"6-1", "6-2", "6-3"} }

// Rows returns the nine rows of the book's tables, each once and in book order.
func Rows() ([]Row, error) {
	rows, err := parse(published)
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Source != Book }), err
}

// Table returns the rows that the book shows in a table, in the order in which it shows them: by mix, so that the
// ways of locking stand below one another. An error says which tables there are.
func Table(name string) ([]Row, error) {
	if !slices.Contains(Tables(), name) {
		return nil, fmt.Errorf("unknown table %q: the book has %s", name, strings.Join(Tables(), ", "))
	}
	rows, err := Rows()
	// A table repeats the rows of those before it, and adds a way of locking.
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Table > name })
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Listers, b.Listers), cmp.Compare(a.Buyers, b.Buyers))
	})
	return rows, err
}

// parse reads all published rows, in the order of the file.
func parse(text string) (rows []Row, err error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("published.csv: %w", err)
	case len(records) == 0 || strings.Join(records[0], ",") != columns:
		return nil, fmt.Errorf("published.csv: want the header %s", columns)
	}
	for i, rec := range records[1:] {
		row, err := parseRow(rec)
		if err != nil {
			return nil, fmt.Errorf("published.csv: record %d: %w", i+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func parseRow(rec []string) (row Row, err error) {
	number := func(text string, least uint64) uint64 {
		n, wrong := strconv.ParseUint(text, 10, 31)
		if wrong == nil && n < least {
			wrong = fmt.Errorf("%d is below %d", n, least)
		}
		err = errors.Join(err, wrong)
		return n
	}
	positive := func(text string) int { return int(number(text, 1)) }
	value := func(text string) Value {
		digits, below := strings.CutPrefix(text, "<")
		return Value{float64(number(digits, 0)), below}
	}
	row = Row{
		Source:  rec[0],
		Table:   rec[1],
		Seconds: positive(rec[2]),
		Listers: positive(rec[3]),
		Buyers:  positive(rec[4]),
		Locking: rec[5],
		Listed:  value(rec[6]),
		Bought:  value(rec[7]),
		Retries: value(rec[8]),
		WaitMS:  value(rec[9]),
	}
	return row, err
}

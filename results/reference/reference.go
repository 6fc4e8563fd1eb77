// Package reference holds the numbers that others published, to be shown beside the measured ones.
//
// The numbers are data: published.csv, next to this file, says what was printed where, and SOURCES.md who printed it
// and how sure each cell is. This package only reads them. What the numbers are said to show is judged in package
// bench.
package reference

import (
	_ "embed"
	"encoding/csv"
	"fmt"
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

	Confirmed string // the cells that a second copy of the text confirms, in words
}

// Value is a printed number.
type Value struct {
	Text   string // as printed, without thousands separators: "27000", "<200"
	Number float64
	Below  bool // printed as <Number: an upper bound, not the number
}

// Published returns every published row, in the order of published.csv.
func Published() ([]Row, error) { return parse(published) }

func parse(text string) ([]Row, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("published.csv: %w", err)
	}
	if len(records) == 0 || strings.Join(records[0], ",") != columns {
		return nil, fmt.Errorf("published.csv: want the header %s", columns)
	}
	rows := make([]Row, 0, len(records)-1)
	for i, rec := range records[1:] {
		row, err := parseRow(rec)
		if err != nil {
			return nil, fmt.Errorf("published.csv: record %d: %w", i+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func parseRow(rec []string) (Row, error) {
	row := Row{Source: rec[0], Table: rec[1], Locking: rec[5], Confirmed: rec[10]}
	for _, f := range []struct {
		to   *int
		text string
	}{{&row.Seconds, rec[2]}, {&row.Listers, rec[3]}, {&row.Buyers, rec[4]}} {
		n, err := strconv.Atoi(f.text)
		if err != nil {
			return Row{}, err
		}
		if n <= 0 {
			return Row{}, fmt.Errorf("%d is not positive", n)
		}
		*f.to = n
	}
	for _, f := range []struct {
		to   *Value
		text string
	}{{&row.Listed, rec[6]}, {&row.Bought, rec[7]}, {&row.Retries, rec[8]}, {&row.WaitMS, rec[9]}} {
		v, err := parseValue(f.text)
		if err != nil {
			return Row{}, err
		}
		*f.to = v
	}
	return row, nil
}

func parseValue(text string) (Value, error) {
	digits, below := strings.CutPrefix(text, "<")
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return Value{}, fmt.Errorf("value %q: %w", text, err)
	}
	return Value{Text: text, Number: float64(n), Below: below}, nil
}

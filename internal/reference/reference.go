// Package reference holds the numbers that others published, to be shown beside
// the measured ones, and judges the claims of the book.
//
// The numbers are data: published.csv, next to this file, says what was printed where,
// and SOURCES.md who printed it and how sure each cell is. What the numbers are said to
// show is in claims.go: [Judge] says whether a run bears it out.
package reference

import (
	"cmp"
	_ "embed"
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

// A PublishedRow is what was printed of one way of locking under one number of listers and
// buyers.
type PublishedRow struct {
	Source  string // who published it: Book or another name of SOURCES.md
	Seconds int    // how long it was measured
	Listers int
	Buyers  int
	Locking string // the name of the strategy in marketsim: watch, coarse or fine

	Listed  PrintedNumber // items put on the market
	Bought  PrintedNumber
	Retries PrintedNumber // of purchases
	WaitMS  PrintedNumber // mean wait for a purchase, in milliseconds
}

// A PrintedNumber is a number as it was printed.
type PrintedNumber struct {
	Number float64
	Below  bool // printed as <Number: an upper bound, not the number
}

// TableNames returns the names of the book's tables, in its order.
func TableNames() []string { return []string{"6-1", "6-2", "6-3"} }

// BookRows returns the nine rows of the book's tables, each once and in book order.
func BookRows() []PublishedRow {
	return slices.DeleteFunc(all(), func(r PublishedRow) bool { return r.Source != Book })
}

// RowsByMix returns the rows by mix, as the last of the book's tables does, which
// repeats those before it.
func RowsByMix() []PublishedRow {
	rows := BookRows()
	slices.SortStableFunc(rows, func(a, b PublishedRow) int {
		return cmp.Or(cmp.Compare(a.Listers, b.Listers), cmp.Compare(a.Buyers, b.Buyers))
	})
	return rows
}

// all reads published.csv, which is a part of this program: a test compares
// each cell with what is read.
func all() (rows []PublishedRow) {
	for _, rec := range rowsOf(published) {
		rows = append(rows, PublishedRow{
			Source: rec[0], Seconds: number(rec[2]), Listers: number(rec[3]), Buyers: number(rec[4]),
			Locking: rec[5],
			Listed:  value(rec[6]), Bought: value(rec[7]), Retries: value(rec[8]), WaitMS: value(rec[9]),
		})
	}
	return rows
}

func number(text string) int { n, _ := strconv.Atoi(text); return n }

func value(text string) PrintedNumber {
	digits, below := strings.CutPrefix(text, "<")
	return PrintedNumber{Number: float64(number(digits)), Below: below}
}

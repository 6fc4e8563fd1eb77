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
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/internal/runs"
)

// The sources of published rows, as a run's Reproduces and published.csv name them.
const (
	// Book is tables 6-1 to 6-3 of Redis in Action.
	Book = "redis-in-action"
	// Jedis is a reproduction of these in Java, which printed four of their nine rows.
	Jedis = "jedis-2017"
)

// jedisScheme is what the port to Java does under its lock: it reads with two requests,
// writes in a pipeline without MULTI, and tries for its lock once a second.
const jedisScheme = ":write=pipeline:read=one-by-one:poll=1s"

// specOf is the strategy of marketsim that locks as a source does.
func specOf(source, locking string) string {
	if source == Jedis && locking != "watch" {
		return locking + jedisScheme
	}
	return locking
}

// SourceOf is whose rows a run reproduces; empty: nobody's.
func SourceOf(run *runs.Run) string {
	switch reproduces := run.Manifest.Config.Reproduces; {
	case slices.Contains(reproduces, Jedis):
		return Jedis
	case len(reproduces) > 0:
		return Book
	}
	return ""
}

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
	Locking string // watch, coarse or fine
	// Strategy is the spec that locks in this way as the source does.
	Strategy string

	Listed  PrintedNumber // items put on the market
	Bought  PrintedNumber
	Retries PrintedNumber // of purchases
	WaitMS  PrintedNumber // mean wait for a purchase, in milliseconds
}

// A PrintedNumber is a number as it was printed; NaN if nothing was.
type PrintedNumber struct {
	Number float64
	Below  bool // printed as <Number: an upper bound, not the number
}

// TableNames returns the names of the book's tables, in its order.
func TableNames() []string { return []string{"6-1", "6-2", "6-3"} }

// RowsOf returns the nine rows of the book's tables, each once and in book order, as a
// source has printed them. Those that it has not have no numbers.
func RowsOf(source string) (rows []PublishedRow) {
	for _, r := range all() {
		switch {
		case r.Source == source:
			rows = append(rows, r)
		case r.Source == Book && !printedBy(source, r):
			blank := PrintedNumber{Number: math.NaN()}
			r.Source, r.Strategy = source, specOf(source, r.Locking)
			r.Listed, r.Bought, r.Retries, r.WaitMS = blank, blank, blank, blank
			rows = append(rows, r)
		}
	}

	order := []string{"watch", "coarse", "fine"}
	slices.SortStableFunc(rows, func(a, b PublishedRow) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Locking), slices.Index(order, b.Locking)),
			cmp.Compare(a.Listers, b.Listers), cmp.Compare(a.Buyers, b.Buyers))
	})
	return rows
}

// printedBy reports whether a source has printed the book's row, too.
func printedBy(source string, row PublishedRow) bool {
	return slices.ContainsFunc(all(), func(r PublishedRow) bool {
		return r.Source == source && r.Locking == row.Locking && r.Listers == row.Listers && r.Buyers == row.Buyers
	})
}

// RowsByMix returns the rows of a source by mix, as the last of the book's tables does,
// which repeats those before it.
func RowsByMix(source string) []PublishedRow {
	rows := RowsOf(source)
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
			Locking: rec[5], Strategy: specOf(rec[0], rec[5]),
			Listed: value(rec[6]), Bought: value(rec[7]), Retries: value(rec[8]), WaitMS: value(rec[9]),
		})
	}
	return rows
}

func number(text string) int { n, _ := strconv.Atoi(text); return n }

func value(text string) PrintedNumber {
	digits, below := strings.CutPrefix(text, "<")
	return PrintedNumber{Number: float64(number(digits)), Below: below}
}

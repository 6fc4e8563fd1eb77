// Package result holds what a run came to, as it is stored: which points were measured, and the rows that came of
// them. It measures nothing and starts nothing, and it holds no English: rows carry codes and values, for which
// package view has the words.
//
// A [Point] is what is measured: a strategy, a mix of sellers and buyers, and a load. A [Row] is one measurement of a
// Point; a [Run] holds its rows round by round, and [Run.Groups] are those of each Point. [Metrics] is the one list
// of the numbers of a row, from which tables, CSV, medians and sweeps are made: a new number is a field of Row, the
// line that counts it and a line in that list.
package result

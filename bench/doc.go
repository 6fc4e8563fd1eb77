// Package bench measures: it loads a market with sellers and buyers and records what each operation cost.
//
// [Run] measures one row: a strategy under a mix of sellers and buyers. A seller mints items in batches and lists
// each; a buyer browses listings and orders each at the price it saw. Minting and browsing are not measured.
// A worker owns its connection, its Purchaser, its histograms and its ledger, so that workers share nothing, and
// nothing is printed or allocated by the driver between two operations.
//
// Counted are the operations started between the end of the warm-up and the end of the row, each followed to its end:
// an operation in flight when time is up is finished and counted, so that long waits are not cut out of the
// distribution. After the drain the market is audited against the workers' ledgers and removed.
//
// A [Result] is a whole run as it is stored in run.json; package report makes tables of it. [Judge] compares it with
// the claims of Redis in Action.
package bench

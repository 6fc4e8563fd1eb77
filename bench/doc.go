// Package bench measures: it loads a market with sellers and buyers and records
// what each operation cost.
//
// [Run] measures one row: a result.Point under [Options]; [Measure] needs less of
// them. A seller mints items in batches and lists each; a buyer looks at listings
// and orders each at the price it saw. Minting and looking are not measured. Each
// worker owns its connection, its Purchaser, its tally and its ledger, so that
// workers share no mutex. The driver prints nothing between two operations, and its
// tallies allocate next to nothing.
//
// A row begins with items listed (those of reproduce with none), warms up for a fixed
// time, and measures for a time T. Then the load goes on, uncounted, until each
// operation that began in T has ended: this is the loaded end, without which the
// longest waits would end in a market that nobody else uses. What was begun after T is
// ended without load, and the market is audited against the ledgers and removed. Three
// kinds of numbers are never mixed:
//
//   - Operations that ended in T: throughput, the purchases of each buyer, the course
//     of a row and its halves.
//   - Operations that began in T, each followed to its end: waits, retries, polls,
//     refusals and round trips.
//   - Read at the two ends of T: processor time, and what connections carried
//     in the background.
//
// Each of the two ends has a limit, made of the strategy's own time-outs. An
// interrupt, or a server that is gone, skips the loaded end, and the row says how many
// operations had not ended then.
//
// In an open loop orders fall due at times fixed beforehand, whether or not a buyer is
// free. The rate reached and the backlog are as of the end of T. An order that fell due
// in the warm-up and is made in T is left over: it counts in what was done in T, such as
// purchases a second, and in no count of orders and no wait. Orders of T wait behind it.
//
// In a closed loop Little's law checks the driver: the times of a buyer's purchases,
// refused orders, listings and waits for something to buy, each clipped to T, add up to
// the time in which it was there.
package bench

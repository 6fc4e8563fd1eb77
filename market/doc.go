// Package market is what is traded: the game market of Redis in Action, section 6.2.
//
// Players own items and coins. A seller lists an item at a price, which moves it from the seller's inventory to
// the market; a buyer purchases it, which moves the item to the buyer's inventory and the price from one account
// to the other. Two players may want the same item, and two programs may spend from the same account, at the same
// time. How they keep out of each other's way is the business of a [Purchaser]; package strategies has several.
//
// # Keys
//
// Every key carries the run's prefix, "marketsim:{<run>}:" by default; see [Keys].
//
//	users:<id>      hash   name, funds (integer coins)
//	inventory:<id>  set    ids of the items the user owns and has not listed
//	market:         zset   member <item>.<seller>, score = integer price
//	lock:<name>     -      what locks need
//	fence:<name>    string which holder of the lock <name> registered last (only with fencing)
//	run             hash   what the run made here, so that it can be removed without a SCAN
//
// # Invariants
//
// [Audit] checks them after every run, against the [Ledger] each client kept of what it was told:
//
//   - the sum of funds never changes;
//   - each account holds what its owner's applied operations say (sums alone miss lost updates);
//   - each minted item is in exactly one place, and it is the place the applied operations say;
//   - no account is below zero.
//
// An operation whose outcome the client was not told is settled by where its item lies.
//
// [Reference] is the same market in memory, one operation at a time: the oracle that conformance tests
// (package markettest) compare every Purchaser with. Package backend is where a market runs.
package market

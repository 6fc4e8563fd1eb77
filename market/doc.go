// Package market is what is traded: the game market of Redis in Action, section 6.2.
//
// Players own items and coins. A seller lists an item at a price, which moves it from
// the seller's inventory to the market; a buyer purchases it, which moves the item to
// the buyer's inventory and the price from one account to the other. Two players may
// want the same item, and two programs may spend from the same account, at once. A
// [Purchaser] keeps them out of each other's way; package strategies has several. [Keys]
// names what there is in Redis.
//
// [Audit] checks after every run, against the [Ledger] that each client kept, that
//
//   - the sum of funds never changes;
//   - each account holds what its owner's applied operations say (sums alone
//     miss lost updates);
//   - each minted item is in exactly one place, and it is the place the applied
//     operations say;
//   - no item is bought twice, not even by one buyer, and a listing stands at the
//     price that its seller asked;
//   - no account is below zero.
//
// The audit settles an operation whose outcome its client does not know by
// where its item lies.
//
// Package markettest checks a Purchaser: it compares what that does with the same market in
// memory, one operation at a time.
package market

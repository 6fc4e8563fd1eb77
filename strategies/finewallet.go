package strategies

import (
	"iter"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

// fineWallet is fine with the buyer's account locked as well. Every purchase locks its item first and its buyer's
// account second: who holds an account waits for nothing, so nobody can wait in a circle. The seller's account needs
// no lock, because it is only added to.
//
// Source: the mend for section 6.2.4 of Redis in Action; the order is Dijkstra's resource hierarchy.
func fineWallet() Strategy {
	names := LockNames{
		list: func(names []string, l market.Listing) []string { return append(names, itemLock(l.Item)) },
		purchase: func(names []string, o market.Order) []string {
			return append(names, itemLock(o.Item), accountLock(o.Buyer))
		},
		all: func(accounts int, items market.ItemID) iter.Seq[string] {
			return func(yield func(string) bool) {
				for id := 1; id <= accounts; id++ {
					if !yield(accountLock(market.UserID(id))) {
						return
					}
				}
				itemLocks(items)(yield)
			}
		},
	}
	return Strategy{
		Name:    "fine-wallet",
		Summary: "a lock an item and one for the buyer's account, taken in that order",
		Source:  "mend for Redis in Action, section 6.2.4",
		Params:  []param.Param{fencingParam},
		Check:   checkFencing,
		Lock:    "setnx",
		Locks:   names,
		New:     newLocked(names),
	}
}

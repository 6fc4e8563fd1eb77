package strategies

import (
	"iter"

	"github.com/marketsim/marketsim/market"
)

// fine is the same critical section as coarse under a lock named after the item, so that operations on different
// items run in parallel.
//
// What breaks it: the lock does not cover the buyer's account. Two programs that spend from one account at the same
// time can both find enough coins in it, and overdraw it (run with --wallets to see it). fine-wallet corrects that.
//
// Source: Redis in Action, section 6.2.4.
func fine() Strategy {
	return underLocks(Strategy{
		Name:     "fine",
		Summary:  "a lock an item; an account that two buyers spend from can be overdrawn",
		Source:   "Redis in Action, section 6.2.4",
		Protects: Protection{Items: true},
		Variants: fencingVariants,
	}, LockNames{
		operation: func(names []string, item market.ItemID, _ market.UserID) []string {
			return append(names, itemLock(item))
		},
		all: func(_ int, items market.ItemID) iter.Seq[string] { return itemLocks(items) },
	})
}

package strategies

import (
	"iter"

	"github.com/marketsim/marketsim/market"
)

// coarse is one lock named "market" around both operations: correct while the lock is, and nobody works in parallel.
//
// Source: Redis in Action, section 6.2.3, purchase_item_with_lock.
func coarse() Strategy {
	const name = "market"
	return underLocks(Strategy{
		Name:     "coarse",
		Summary:  "one lock around every listing and purchase of the market",
		Source:   "Redis in Action, section 6.2.3",
		Protects: Protection{Items: true, Accounts: true},
	}, LockNames{
		operation: func(names []string, _ market.ItemID, _ market.UserID) []string { return append(names, name) },
		all: func(int, market.ItemID) iter.Seq[string] {
			return func(yield func(string) bool) { yield(name) }
		},
	})
}

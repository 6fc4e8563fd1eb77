package strategies

import (
	"iter"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

// coarse is one lock named "market" around both operations: correct while the lock is, and nobody works in parallel.
//
// Source: Redis in Action, section 6.2.3, purchase_item_with_lock.
func coarse() Strategy {
	const name = "market"
	names := LockNames{
		list:     func(names []string, _ market.Listing) []string { return append(names, name) },
		purchase: func(names []string, _ market.Order) []string { return append(names, name) },
		all: func(int, market.ItemID) iter.Seq[string] {
			return func(yield func(string) bool) { yield(name) }
		},
	}
	return Strategy{
		Name:    "coarse",
		Summary: "one lock around every listing and purchase of the market",
		Source:  "Redis in Action, section 6.2.3",
		Params:  []param.Param{fencingParam},
		Check:   checkFencing,
		Lock:    "setnx",
		Locks:   names,
		New:     newLocked(names),
	}
}

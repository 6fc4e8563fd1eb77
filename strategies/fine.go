package strategies

import (
	"iter"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

// fine is the same critical section as coarse under a lock named after the item, so that operations on different
// items run in parallel.
//
// What breaks it: the lock does not cover the buyer's account. Two programs that spend from one account at the same
// time can both find enough coins in it, and overdraw it (run with --wallets to see it). fine-wallet is the mend.
//
// Source: Redis in Action, section 6.2.4.
func fine() Strategy {
	names := LockNames{
		list:     func(names []string, l market.Listing) []string { return append(names, itemLock(l.Item)) },
		purchase: func(names []string, o market.Order) []string { return append(names, itemLock(o.Item)) },
		all:      func(_ int, items market.ItemID) iter.Seq[string] { return itemLocks(items) },
	}
	return Strategy{
		Name:    "fine",
		Summary: "a lock an item; an account that two buyers spend from can be overdrawn",
		Source:  "Redis in Action, section 6.2.4",
		Params:  []param.Param{fencingParam},
		Check:   checkFencing,
		Lock:    "setnx",
		Locks:   names,
		New:     newLocked(names),
	}
}

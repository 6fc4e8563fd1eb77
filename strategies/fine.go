package strategies

import (
	"slices"
	"strconv"

	"github.com/marketsim/marketsim/market"
)

// coarse is one lock named "market" around both operations: correct while the
// lock is, and nobody works in parallel. Source: Redis in Action, section
// 6.2.3, purchase_item_with_lock.
func coarse() Strategy {
	return underLocks(Strategy{
		Name:     "coarse",
		Summary:  "one lock around every listing and purchase of the market",
		Source:   "Redis in Action, section 6.2.3",
		Protects: Protection{Items: true, Accounts: true},
	}, func(names []string, _ market.ItemID, _ market.UserID, _ int) []string {
		return append(names, "market")
	})
}

const fineName = "fine"

// fine is coarse under a lock named after the item, so that operations on
// different items run in parallel.
//
// What breaks it: the lock does not cover the buyer's account. Two programs that spend
// from one account at once can each find enough in it, and overdraw it (scenario
// overdraft); fine-wallet corrects that. Source: Redis in Action, 6.2.4.
func fine() Strategy {
	return underLocks(Strategy{
		Name:     fineName,
		Summary:  "a lock per item; an account that two buyers spend from can be overdrawn",
		Source:   "Redis in Action, section 6.2.4",
		Protects: Protection{Items: true},
		Variants: fencingVariants,
	}, func(names []string, item market.ItemID, _ market.UserID, _ int) []string {
		return append(names, itemLock(item))
	})
}

// fineWallet is fine with the buyer's account locked after the item: the holder of an
// account waits for nothing, so nobody can wait in a circle. The seller's account needs
// no lock, because it is only added to. Source: a correction of section 6.2.4 of Redis in
// Action; the order is Dijkstra's resource hierarchy.
func fineWallet() Strategy {
	return underLocks(Strategy{
		Name:     "fine-wallet",
		Summary:  "a lock per item and one per buyer's account, taken in that order",
		Source:   "correction of Redis in Action, section 6.2.4",
		Protects: Protection{Items: true, Accounts: true},
	}, itemAndAccount)
}

// walletUnordered is a control: fine-wallet, but every second purchase of a
// worker takes the account first.
//
// What breaks it: two workers that want one item for one account can each hold what
// the other waits for, until one of them gives up. Everybody who wants either waits
// with them (scenario crossed). Source: E. W. Dijkstra's dining philosophers,
// without his resource hierarchy.
func walletUnordered() Strategy {
	return underLocks(Strategy{
		Name:     "wallet-unordered",
		Summary:  "fine-wallet with its two locks taken in changing order; a control: it deadlocks until a time-out",
		Source:   "the dining philosophers",
		Protects: Protection{Items: true, Accounts: true},
	}, func(names []string, item market.ItemID, buyer market.UserID, n int) []string {
		names = itemAndAccount(names, item, buyer, n)
		if n%2 == 0 {
			slices.Reverse(names)
		}
		return names
	})
}

// itemAndAccount are the locks of an item and of the account that buys it.
func itemAndAccount(names []string, item market.ItemID, buyer market.UserID, _ int) []string {
	names = append(names, itemLock(item))
	if buyer != 0 {
		names = append(names, accountLock(buyer))
	}
	return names
}

func itemLock(id market.ItemID) string { return strconv.FormatInt(int64(id), 10) }

func accountLock(id market.UserID) string { return "users:" + strconv.FormatInt(int64(id), 10) }

package strategies

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/market"
)

// fineWallet is fine with the buyer's account locked as well. Every purchase locks its item first and its buyer's
// account second: the holder of an account waits for nothing, so nobody can wait in a circle. The seller's account
// needs no lock, because it is only added to.
//
// Source: a correction of section 6.2.4 of Redis in Action; the order is Dijkstra's resource hierarchy.
func fineWallet() Strategy {
	return underLocks(Strategy{
		Name:     "fine-wallet",
		Summary:  "a lock an item and one for the buyer's account, taken in that order",
		Source:   "correction of Redis in Action, section 6.2.4",
		Protects: Protection{Items: true, Accounts: true},
	}, itemAndAccount())
}

// checkTogether refuses modifiers of locks that one command takes: a modifier takes each by itself.
func checkTogether(s Spec) error {
	name, modifiers, modified := strings.Cut(s.lock.Name, "+")
	if take, _ := s.Value("take"); modified && take == "msetex" {
		return fmt.Errorf("take=msetex takes the locks of an operation together, and +%s takes one at a time: "+
			"leave it out (%s:%s:take=msetex)", modifiers, s.strategy.Name, name)
	}
	return nil
}

// walletUnordered is fine-wallet with a mistake: every second purchase of a worker takes the account first and the item
// second. It is a control, which must be caught.
//
// What breaks it: two workers who want the same item for the same account can each hold what the other waits for. Both
// wait until one of them gives up, and everybody who wants either waits with them (scenario crossed). Nothing is lost,
// and nothing is bought: the price is time, counted as contended orders.
//
// Source: E. W. Dijkstra's dining philosophers, without his resource hierarchy.
func walletUnordered() Strategy {
	s := underLocks(Strategy{
		Name:     "wallet-unordered",
		Summary:  "fine-wallet with its two locks taken in changing order; a control: it deadlocks until a time-out",
		Source:   "the dining philosophers",
		Protects: Protection{Items: true, Accounts: true},
	}, itemAndAccount())
	ordered := s.New
	s.New = func(env Env) (market.Purchaser, io.Closer, error) {
		p, closer, err := ordered(env)
		if err != nil {
			return nil, nil, err
		}
		k, purchases := p.(*locked), 0
		inOrder := k.names.operation
		k.names.operation = func(names []string, item market.ItemID, buyer market.UserID) []string {
			names = inOrder(names, item, buyer)
			if buyer != 0 {
				if purchases++; purchases%2 == 0 {
					slices.Reverse(names)
				}
			}
			return names
		}
		return k, closer, nil
	}
	return s
}

// itemAndAccount are the locks of an item and of the account that buys it.
func itemAndAccount() LockNames {
	return LockNames{
		several: true,
		operation: func(names []string, item market.ItemID, buyer market.UserID) []string {
			names = append(names, itemLock(item))
			if buyer != 0 {
				names = append(names, accountLock(buyer))
			}
			return names
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
}

package history

import (
	"fmt"
	"maps"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// A settlement says which orders of unknown outcome were applied.
type settlement struct {
	applied []*Op
	open    map[market.UserID]bool // the accounts of which that is not known
	unsure  []market.ItemID        // the items of which a way was supposed that may be none
}

// doubts notes what a part supposed and could not decide.
func (s *settlement) doubts(p *Part) {
	for _, item := range s.unsure {
		p.doubt("item %d: too many operations at a time, or time ran out, before it was known which of its orders of unknown "+
			"outcome can have been applied", item)
	}
}

// leave notes that it is not known which of the orders were applied.
func (s *settlement) leave(orders ...*Op) {
	for _, o := range orders {
		s.open[o.Seller], s.open[o.Buyer] = true, true
	}
}

// accounts compares what each account holds at the end with its opening, sales and purchases. Orders of unknown outcome
// are settled by the lives of their items; where that leaves several ways, one of them has to explain all accounts.
func (c *checker) accounts() (*Part, settlement) {
	s := settlement{open: map[market.UserID]bool{}}
	changes := balances{}
	for i := range c.h.Ops {
		if o := &c.h.Ops[i]; o.Kind == Purchase && o.Outcome == Applied {
			changes.book(o)
		}
	}
	var ambiguous [][][]*Op // by item, the ways in which its orders may have ended
	for _, l := range c.lives {
		ways, sure := c.settle(l)
		if !sure {
			s.unsure = append(s.unsure, l.item)
		}
		switch {
		case ways == nil:
			s.leave(l.unknownOrders()...)
		case len(ways) == 1:
			s.applied = append(s.applied, ways[0]...)
			changes.book(ways[0]...)
		default:
			ambiguous = append(ambiguous, ways)
		}
	}
	chosen, sole := c.choose(changes, ambiguous, s.open)
	if chosen == nil && !sole {
		for _, ways := range ambiguous {
			s.leave(slices.Concat(ways...)...)
		}
	}
	changes.book(chosen...)
	p := c.compare(changes, s.open)
	s.doubts(p)
	if sole {
		s.applied = append(s.applied, chosen...)
	} else {
		s.leave(slices.Concat(slices.Concat(ambiguous...)...)...)
	}
	return p, s
}

// maxWays bounds how many ways of settling are tried.
const maxWays = 4096

// choose finds a way of settling that explains all accounts, or else the first; sole says that no other does as well. It
// chooses nothing when there are too many.
func (c *checker) choose(sure balances, ambiguous [][][]*Op, open map[market.UserID]bool) (chosen []*Op, sole bool) {
	total, fits := 1, 0
	for _, ways := range ambiguous {
		if total *= len(ways); total > maxWays {
			return nil, false
		}
	}
	chosen = way(ambiguous, 0)
	for n := range total {
		orders := way(ambiguous, n)
		with := maps.Clone(sure)
		with.book(orders...)
		if !c.explains(with, open) {
			continue
		}
		if fits++; fits == 1 {
			chosen = orders
		}
	}
	return chosen, total == 1 || fits == 1
}

// way is the n-th combination; it is never nil.
func way(ambiguous [][][]*Op, n int) []*Op {
	orders := []*Op{}
	for _, ways := range ambiguous {
		orders = append(orders, ways[n%len(ways)]...)
		n /= len(ways)
	}
	return orders
}

// explains reports whether each account holds what the changes say.
func (c *checker) explains(changes balances, open map[market.UserID]bool) bool {
	for id := market.UserID(1); id <= market.UserID(c.h.Accounts); id++ {
		if funds, ok := c.h.FinalFunds[id]; !open[id] && (!ok || funds != c.h.Funds+changes[id]) {
			return false
		}
	}
	return true
}

// compare judges each account.
func (c *checker) compare(changes balances, open map[market.UserID]bool) *Part {
	p := newPart("accounts")
	p.Checked = fmt.Sprintf("%d accounts: opening, sales and purchases against what each holds at the end", c.h.Accounts)
	for id := market.UserID(1); id <= market.UserID(c.h.Accounts); id++ {
		funds, ok := c.h.FinalFunds[id]
		should := c.h.Funds + changes[id]
		switch {
		case !ok:
			p.tell(nil, "account %d is gone", id)
		case open[id]:
			p.doubt("account %d: it is not known which orders of unknown outcome were applied", id)
		case funds < should:
			p.tell(nil, "account %d holds %s less than its operations say: %d, and should hold %d", id, coins(should-funds), funds, should)
		case funds > should:
			p.tell(nil, "account %d holds %s more than its operations say: %d, and should hold %d", id, coins(funds-should), funds, should)
		}
	}
	return p
}

package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// A balance is the state of an account: its coins.
type balance int64

func (b balance) String() string { return "holds " + coins(int64(b)) }

// A booking is what an order did to an account. It is possible only while the account holds
// what it needs.
type booking struct {
	order         *Op
	change, needs int64 // coins; a sale needs none
}

func (b booking) apply(s state) (state, bool) {
	funds := s.(balance)
	return funds + balance(b.change), b.needs == 0 || int64(funds) >= b.needs
}

func (b booking) String() string {
	did := "sold"
	if b.needs > 0 {
		did = "bought"
	}
	return fmt.Sprintf("item %d %s for %s", b.order.Item, did, coins(b.order.Price))
}

// booking is what a step did to an account: nothing, if it reads.
func (s step) booking() booking {
	b, _ := s.act.(booking)
	return b
}

// payments looks for an order of the operations on each account that could have run out, in
// which it pays with coins that it has. An account that has its coins again at the end may
// have been overdrawn for a while.
func (c *checker) payments() *Part {
	p := newPart("payments")
	c.overdrawn = map[market.UserID]bool{}
	short := 0
	operations := 0
	for number, account := range c.statements() {
		if !c.couldRunOut(account) {
			continue
		}
		short++
		operations += len(account)

		id := market.UserID(number)
		if c.unsettled[id] {
			p.addDoubt(notSettled, id)
			continue
		}
		answer := c.judge(p, fmt.Sprintf("account %d", id), balance(c.h.Funds), account)
		c.overdrawn[id] = answer == Violated
	}
	p.Checked = fmt.Sprintf("%d of %d accounts could run out of coins: %d operations", short, c.h.Accounts, operations)
	return p
}

// statements are the operations on each account, by its number. An order of unknown outcome
// counts where it was applied, and where its buyer's account is not settled, who may run out.
// The history is one that Read accepts: every id is that of an account.
func (c *checker) statements() [][]step {
	all := make([][]step, c.h.Accounts+1)
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		add := func(id market.UserID, act action) {
			one := o.step(act)
			one.may = one.may && !c.applied[o]
			all[id] = append(all[id], one)
		}

		switch {
		case o.Kind != Purchase:
		case o.Reason == market.Reason(market.ErrInsufficientFunds):
			add(o.Buyer, o.tooDear())
		case o.Outcome == Refused || !c.paid(o) && !c.unsettled[o.Buyer]:
		case o.Seller == o.Buyer:
			add(o.Buyer, booking{order: o, needs: o.Price})
		default:
			add(o.Seller, booking{order: o, change: o.Price})
			add(o.Buyer, booking{order: o, change: -o.Price, needs: o.Price})
		}
	}
	return all
}

// tooDear is what a refusal for lack of coins says of the buyer's account.
func (o *Op) tooDear() reading {
	return reading{
		text:  fmt.Sprintf("item %d for %s refused as too dear", o.Item, coins(o.Price)),
		wrong: "refused, though there was no moment without the coins",
		holds: func(s state) bool { return int64(s.(balance)) < o.Price },
	}
}

// couldRunOut reports whether an order was refused for lack of coins, or an account may once
// have held less than its dearest order costs. At any time it held at least its opening and the
// sales that had returned, less all orders that had been called. It sorts the steps.
func (c *checker) couldRunOut(account []step) bool {
	changes := func(s step) int64 { // when, at the latest or at the earliest
		if s.booking().change > 0 {
			return s.ret
		}
		return s.call
	}
	// At one moment orders come before sales, so that the account holds the least that it may have.
	slices.SortFunc(account, func(a, b step) int {
		return cmp.Or(cmp.Compare(changes(a), changes(b)), cmp.Compare(a.booking().change, b.booking().change))
	})

	dearest := int64(0)
	for _, s := range account {
		dearest = max(dearest, s.booking().needs)
	}
	least := c.h.Funds
	return slices.ContainsFunc(account, func(s step) bool {
		least += s.booking().change
		return s.reads() || least < dearest
	})
}

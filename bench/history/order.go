package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// A balance is the state of an account: its coins.
type balance int64

// A booking changes an account by so many coins. It is possible only when the account holds what the booking needs.
type booking struct {
	change int64
	needs  int64 // 0: a sale, which needs nothing
	order  *Op
	may    bool
}

func (b booking) apply(s state) (state, bool) {
	funds := s.(balance)
	if b.needs > 0 && int64(funds) < b.needs {
		return s, b.may
	}
	return funds + balance(b.change), true
}

func (b booking) pending() action { b.may = true; return b }

func (b booking) String() string {
	text := fmt.Sprintf("item %d sold for %s", b.order.Item, coins(b.order.Price))
	if b.needs > 0 {
		text = fmt.Sprintf("item %d bought for %s", b.order.Item, coins(b.order.Price))
	}
	if b.may {
		text += ", outcome not told"
	}
	return text
}

// A lack is an order refused for insufficient funds.
type lack struct{ order *Op }

func (l lack) apply(s state) (state, bool) { return s, int64(s.(balance)) < l.order.Price }
func (lack) pending() action               { return nil }
func (l lack) String() string {
	return fmt.Sprintf("item %d for %s refused as too dear", l.order.Item, coins(l.order.Price))
}

// endBalance is what an account holds after steps that are all certain, whatever their order was.
func endBalance(from state, steps []step) state {
	funds := from.(balance)
	for _, s := range steps {
		if b, ok := s.act.(booking); ok {
			funds += balance(b.change)
		}
	}
	return funds
}

// order looks for an order of the operations of each account that could have run out of coins.
func (c *checker) order(s settlement) *Part {
	p := newPart("order of accounts")
	tight, steps := 0, 0
	for i, account := range c.statements(s) {
		id := market.UserID(i)
		from, rest := c.tight(account)
		if len(rest) == 0 {
			continue
		}
		tight++
		steps += len(rest)
		if s.open[id] {
			p.doubt("account %d: it is not known which orders of unknown outcome were applied", id)
			continue
		}
		if c.ctx.Err() != nil {
			p.doubt("account %d: time ran out", id)
			continue
		}
		switch result, found := c.inOrder(from, rest, endBalance); result {
		case Violated:
			p.show(found, telling{fmt.Sprintf("account %d", id), "holds " + coins(int64(found.from.(balance))), found.told(),
				found.accountFault()})
		case Undecided:
			p.doubt("account %d: too many operations at a time, or time ran out", id)
		}
	}
	s.doubts(p)
	p.Checked = fmt.Sprintf("%d of %d accounts could run out of coins: %d operations from then on", tight,
		c.h.Accounts, steps)
	return p
}

func (f *finding) accountFault() string {
	if _, ok := f.last().(lack); ok {
		return "refused, though there was no moment without the coins"
	}
	return "spent coins that it did not have"
}

// statements are the operations of each account, by id, unless nothing was ever bought from it.
func (c *checker) statements(s settlement) [][]step {
	all := make([][]step, c.h.Accounts+1)
	book := func(o *Op, ret int64) {
		one := func(id market.UserID, act action) {
			all[id] = append(all[id], step{o.Worker - 1, o.Start, ret, act, o})
		}
		if o.Seller == o.Buyer {
			one(o.Buyer, booking{0, o.Price, o, false})
			return
		}
		one(o.Seller, booking{o.Price, 0, o, false})
		one(o.Buyer, booking{-o.Price, o.Price, o, false})
	}
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		switch {
		case o.Kind != Purchase:
		case o.Outcome == Applied:
			book(o, o.End)
		case o.Outcome == Unknown && s.open[o.Buyer]: // it counts where the question is whether coins could run out
			all[o.Buyer] = append(all[o.Buyer], step{o.Worker - 1, o.Start, never, booking{-o.Price, o.Price, o, true}, o})
		case o.Outcome == Refused && o.Reason == insufficientFunds:
			all[o.Buyer] = append(all[o.Buyer], step{o.Worker - 1, o.Start, o.End, lack{o}, o})
		}
	}
	for _, o := range s.applied {
		book(o, never)
	}
	return all
}

// tight leaves out the beginning of an account's operations, as long as it surely held more than the highest price, and
// returns what it held then. At every moment of that beginning the account held at least its opening and the sales that
// had returned, less all orders that had been called. So no order that came first could lack coins, and those that had
// returned may as well have come before all the rest, those under way included. An order that was refused for lack of
// coins ends the beginning, whatever the bound says.
func (c *checker) tight(account []step) (balance, []step) {
	highest := int64(0)
	for _, s := range account {
		switch act := s.act.(type) {
		case booking:
			highest = max(highest, act.needs)
		case lack:
			highest = max(highest, act.order.Price)
		}
	}
	if highest == 0 {
		return 0, nil
	}
	from := c.firstTight(account, highest)
	funds, rest := balance(c.h.Funds), []step{}
	for _, s := range account {
		if b, ok := s.act.(booking); ok && s.ret < from {
			funds += balance(b.change)
		} else {
			rest = append(rest, s)
		}
	}
	if from == never {
		return funds, nil
	}
	return funds, rest
}

// firstTight is the first moment from which on an account may have held less than highest; never if there is none.
func (c *checker) firstTight(account []step, highest int64) int64 {
	type event struct{ at, change int64 }
	var events []event
	refused := int64(never)
	for _, s := range account {
		switch act := s.act.(type) {
		case lack:
			refused = min(refused, s.call)
		case booking:
			at := s.call
			if act.change > 0 {
				at = s.ret
			}
			if at != never {
				events = append(events, event{at, act.change})
			}
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.change, b.change))
	})
	least := c.h.Funds
	if least < highest {
		return min(refused, 0)
	}
	for _, e := range events {
		if least += e.change; least < highest {
			return min(refused, e.at)
		}
	}
	return refused
}

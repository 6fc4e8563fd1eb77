package fault

import (
	"fmt"

	"github.com/marketsim/marketsim/market"
)

// count ends all clients and accounts for the coins and items that they moved: the worst that is wrong, with a line that
// says what, or Safe.
func (s *Stage) count() (Verdict, string) {
	s.dismiss()
	if s.failed() {
		return "", ""
	}
	after, err := market.ReadSnapshot(s.ctx, s.conn.Client, s.keys, accounts)
	if err != nil {
		s.fail(fmt.Errorf("count the market: %w", err))
		return "", ""
	}
	for item := s.first; item <= s.first+offered; item++ {
		if verdict, why := misplaced(after, item); why != "" {
			return verdict, why
		}
	}
	if was, is := sum(s.before), sum(after); is > was {
		return CoinsMade, "coins came from nowhere"
	} else if is < was {
		return CoinsLost, "coins vanished"
	}
	for id := market.UserID(1); id <= accounts; id++ {
		if want := s.before.Funds[id] + s.moved(id, after); after.Funds[id] < want {
			return ChargedTwice, s.charged(id, after)
		}
	}
	return Safe, ""
}

// charged says for what an account paid too much.
func (s *Stage) charged(id market.UserID, after market.Snapshot) string {
	for _, op := range s.operations {
		if o := op.order; o != nil && o.Buyer == id && op.outcome.Reason != "" && after.Inventory[id][o.Item] {
			return "the buyer was told no (" + op.outcome.Reason + "), and was charged all the same"
		}
	}
	return "a buyer paid more often than they bought"
}

// misplaced says what is wrong with where an item lies.
func misplaced(m market.Snapshot, item market.ItemID) (Verdict, string) {
	owners, listed := 0, false
	for _, items := range m.Inventory {
		if items[item] {
			owners++
		}
	}
	for id := market.UserID(1); id <= accounts; id++ {
		if _, ok := m.Listings[market.Member(item, id)]; ok {
			listed = true
		}
	}
	switch {
	case owners > 1:
		return SoldTwice, "the item went to two buyers"
	case owners == 1 && listed:
		return SoldTwice, "the item was bought, and is still for sale: the next buyer gets it again"
	case owners == 0 && !listed:
		return ItemLost, "the item is gone: nobody has it, and it is not for sale"
	}
	return Safe, ""
}

func sum(m market.Snapshot) (total int64) {
	for _, f := range m.Funds {
		total += f
	}
	return total
}

// moved is what an account's operations did to its funds. An order of unknown outcome counts if its item lies with its
// buyer and no other order explains that.
func (s *Stage) moved(id market.UserID, after market.Snapshot) (coins int64) {
	explained := map[market.ItemID]bool{}
	book := func(o *market.Order) {
		explained[o.Item] = true
		if o.Seller == id {
			coins += o.Price
		}
		if o.Buyer == id {
			coins -= o.Price
		}
	}
	for _, op := range s.operations {
		if op.order != nil && op.done && op.outcome.Applied() {
			book(op.order)
		}
	}
	for _, op := range s.operations {
		if op.order != nil && (!op.done || op.outcome.Unknown()) &&
			after.Inventory[op.order.Buyer][op.order.Item] && !explained[op.order.Item] {
			book(op.order)
		}
	}
	return coins
}

package fault

import (
	"fmt"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// saw ends all clients and counts the market. Where coins or items are wrong that is the reason, else the one given.
func (s *setup) saw(kept result.KeptOut, why string) observed {
	harm, what := s.audit()
	if harm != result.NoHarm {
		why = what
	}
	return observed{harm: harm, kept: kept, why: why}
}

// sawBeside is saw where a client may have come in beside the holder of a lock: how says why it could, and otherwise
// what is the case if nobody did.
func (s *setup) sawBeside(in bool, kept result.KeptOut, how, otherwise string) observed {
	o := s.saw(kept, otherwise)
	switch {
	case o.harm != result.NoHarm:
		o.why = how + ": " + o.why
	case in:
		o.harm, o.why = result.TwoHolders, how+"; the money is right this time"
	}
	return o
}

// audit ends all clients and accounts for the coins and items that they moved: the worst that is wrong, with a line
// that says what, or NoHarm.
func (s *setup) audit() (result.Harm, string) {
	s.check(s.endClients())
	after, err := s.snapshot()
	if err != nil {
		s.fail(fmt.Errorf("count the market: %w", err))
	}
	for item := s.first; item < s.first+2*offered; item++ {
		if harm, why := misplaced(after, item); why != "" {
			return harm, why
		}
	}
	if was, is := sum(s.before), sum(after); is > was {
		return result.CoinsMade, "coins came from nowhere"
	} else if is < was {
		return result.CoinsLost, "coins vanished"
	}
	if harm, why := s.toldTwice(); harm != result.NoHarm {
		return harm, why
	}
	for id := seller + 1; id <= accounts; id++ {
		paid, worth := s.before.Funds[id]-after.Funds[id], price*int64(len(after.Inventory[id]))
		switch {
		case after.Funds[id] < 0:
			return result.Overdrawn, "an account is below zero: it paid for more than it could"
		case paid > worth:
			return result.ChargedTwice, "a buyer paid more often than they bought"
		case paid < worth:
			return result.NotPaid, "a buyer paid less often than they bought"
		}
	}
	return s.toldNo(after)
}

// toldTwice finds an item of which two orders were applied, as their clients were told. The places of items and the
// funds may then be those of two lawful orders, and show nothing.
func (s *setup) toldTwice() (result.Harm, string) {
	bought := map[market.ItemID]market.UserID{}
	for _, op := range s.operations {
		if op.order == nil || !op.done || !op.outcome.Applied() {
			continue
		}
		switch bought[op.order.Item] {
		case 0:
			bought[op.order.Item] = op.order.Buyer
		case op.order.Buyer:
			return result.ChargedTwice, "the buyer was told twice that it bought the item"
		default:
			return result.SoldTwice, "two buyers bought the item, and one has it"
		}
	}
	return result.NoHarm, ""
}

// toldNo finds a buyer who has an item, and was told of each order of it that it was refused.
func (s *setup) toldNo(after market.Snapshot) (result.Harm, string) {
	explained := map[market.Order]bool{}
	for _, op := range s.operations {
		if op.order != nil && op.outcome.Reason == "" { // applied, or unknown
			explained[*op.order] = true
		}
	}
	for _, op := range s.operations {
		if o := op.order; o != nil && !explained[*o] && after.Inventory[o.Buyer][o.Item] {
			return result.ToldNo, "the buyer paid once and has the item, and was told no (" + op.outcome.Reason + ")"
		}
	}
	return result.NoHarm, ""
}

// misplaced says what is wrong with where an item lies.
func misplaced(m market.Snapshot, item market.ItemID) (result.Harm, string) {
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
		return result.SoldTwice, "the item went to two buyers"
	case owners == 1 && listed:
		return result.SoldTwice, "the item was bought, and is still for sale: the next buyer gets it again"
	case owners == 0 && !listed:
		return result.ItemLost, "the item is gone: nobody has it, and it is not for sale"
	}
	return result.NoHarm, ""
}

func sum(m market.Snapshot) (total int64) {
	for _, f := range m.Funds {
		total += f
	}
	return total
}
